// A short-lived script without an outcome worker: it asks Redis itself, sends one text message by the first channel that is not blocked,
// and says how that ended. Needs a Redis (FUSELINE_REDIS_URL). SMS_URL: where the providers answer.
import { createChecker } from 'fuseline';

const providers = ['sms-aliyun', 'sms-tencent', 'sms-twilio'];
const checker = await createChecker({ url: process.env.FUSELINE_REDIS_URL ?? 'redis://127.0.0.1:6379' });

for (const channel of providers) {
  if (await checker.isBlockedNow(channel).catch(() => false)) continue; // Redis away: try it, as without Fuseline
  const startedAt = performance.now();
  const response = await fetch(`${process.env.SMS_URL}/${channel}`, { method: 'POST' }).catch(() => undefined);
  const durationMs = Math.round(performance.now() - startedAt);
  const verdict = await checker.record({
    channel,
    success: response?.ok === true,
    code: String(response?.status ?? 'UNREACHABLE'),
    durationMs,
  });
  console.log(`${channel}: ${response?.ok ? 'sent' : 'failed'}${verdict.justBlocked ? ', and it is blocked now' : ''}`);
  if (response?.ok) break;
}
await checker.close();
