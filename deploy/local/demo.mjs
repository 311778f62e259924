// `npm run demo`: the whole of Fuseline in twenty seconds, on a private Redis; `npm run demo -- --kafka` has the outcomes travel over a real
// Kafka broker, of which nothing else in the story knows. Two instances of a checkout offer three channels; one
// starts failing; both stop offering it; an alert arrives; the block ends; both offer it again; a second alert says so. Every line
// that it prints was checked; whatever is missing ends it with the reason and exit code 1.

import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { openKafka } from './kafka.mjs';
import { freePort, startRedis } from './redis-server.mjs';

const checkout = fileURLToPath(new URL('../..', import.meta.url));
const startedAt = performance.now();
const closers = [];
const alerts = [];
const services = {
  A: { calls: { total: 0, failed: 0 }, offered: [] },
  B: { calls: { total: 0, failed: 0 }, offered: [] },
};

const color = process.stdout.isTTY && !process.env.NO_COLOR;
const paint = (code, text) => (color ? `\u001b[${code}m${text}\u001b[0m` : text);
const red = (text) => paint(31, text);
const green = (text) => paint(32, text);

/** Waits for a state, and says what it waited for if it does not come. */
async function until(what, withinMs, test) {
  for (const from = performance.now(); performance.now() - from < withinMs; ) {
    const found = await test();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`waited ${withinMs / 1000} s for ${what}`);
}

function say(text) {
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1).padStart(5);
  console.log(`${seconds} s  ${text}`);
}

function offers() {
  const { A, B } = services;
  return `A offers ${A.offered.join(', ')} · B offers ${B.offered.join(', ')} · ${A.calls.total + B.calls.total} calls, ${A.calls.failed + B.calls.failed} failed`;
}

const bothOffer = (channels) => Object.values(services).every(({ offered }) => offered.join() === channels);

/** Receives the alerts as any webhook would. */
async function startReceiver() {
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    response.end('ok');
    const alert = JSON.parse(body);
    alerts.push(alert);
    const [title, ...lines] = alert.text.split('\n');
    const shade = alert.type === 'channel.blocked' ? red : green;
    say(shade(`alert ${alert.type}: ${title}`));
    for (const line of lines) console.log(`         ${line}`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closers.push(() => server.close());
  return `http://127.0.0.1:${server.address().port}/`;
}

async function startRoles(env) {
  const child = spawn(process.execPath, ['dist/src/cli/main.js', 'start'], {
    cwd: checkout,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => output.push(data));
  let ended = false;
  child.once('exit', () => {
    ended = true;
  });
  closers.push(async () => {
    if (ended) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  });
  await until('the workers to be ready', 15_000, async () => {
    if (ended) throw new Error(`the workers ended:\n${Buffer.concat(output)}`);
    return (await fetch(`http://127.0.0.1:${env.FUSELINE_HTTP_PORT}/readyz`).catch(() => undefined))?.ok;
  });
}

async function startService(name, env) {
  const child = fork(fileURLToPath(new URL('demo-checkout.mjs', import.meta.url)), [name], { env });
  closers.push(async () => {
    if (!child.connected) return;
    child.send({ end: true });
    await once(child, 'exit');
  });
  child.on('message', (message) => Object.assign(services[name], message));
  await until(`checkout ${name} to start`, 10_000, () => services[name].ready);
  return child;
}

/** @returns {Promise<Record<string, string>>} the settings that choose the log, the same for services and workers */
async function openLog() {
  if (!process.argv.includes('--kafka')) return {};
  const { brokers, stop } = await openKafka();
  closers.push(stop);
  const env = {
    FUSELINE_TRANSPORT: 'kafka',
    FUSELINE_KAFKA_BROKERS: brokers,
    // Brokers that run already may hold outcomes of other days.
    FUSELINE_KAFKA_TOPIC: `fuseline.demo.${process.pid}`,
    FUSELINE_KAFKA_GROUP: `fuseline.demo.${process.pid}`,
  };
  const create = ['dist/src/cli/main.js', 'kafka', 'create-topic', '--partitions', '4', '--retention', '1h'];
  const child = spawn(process.execPath, create, { cwd: checkout, env: { ...process.env, ...env }, stdio: 'inherit' });
  const [code] = await once(child, 'exit');
  check(code === 0, 'the topic can be made');
  say(`Kafka at ${brokers}, topic ${env.FUSELINE_KAFKA_TOPIC}`);
  return env;
}

async function play() {
  const redis = await startRedis();
  closers.push(() => redis.stop());
  say(`a private redis-server on port ${redis.port}`);
  const env = {
    ...process.env,
    ...(await openLog()),
    FUSELINE_REDIS_URL: redis.url,
    FUSELINE_RULES: 'examples/rules.yaml',
    FUSELINE_HTTP_PORT: String(await freePort()),
    FUSELINE_ALLOW_PRIVATE_RECEIVERS: 'true',
    FUSELINE_LOG_LEVEL: 'warn',
    DEMO_WEBHOOK_URL: await startReceiver(),
  };
  await startRoles(env);
  say('fuseline start: outcomes, recovery and alerts are ready');
  const both = await Promise.all([startService('A', env), startService('B', env)]);
  const tellBoth = (message) => {
    for (const child of both) child.send(message);
  };

  await until(
    'both checkouts to offer all three channels',
    5_000,
    () => bothOffer('ALIPAY,WECHAT,STRIPE') && services.A.calls.total > 60,
  );
  say(`outcomes flow: ${offers()}`);

  tellBoth({ breaks: 'ALIPAY' });
  say(red('ALIPAY begins to answer 200 with SYSTEM_ERROR in the body'));
  await until('both checkouts to stop offering ALIPAY', 5_000, () => bothOffer('WECHAT,STRIPE'));
  say(`${red('ALIPAY has vanished everywhere')}: ${offers()}`);
  const blocked = await until('the alert of the block', 5_000, () =>
    alerts.find(({ type }) => type === 'channel.blocked'),
  );
  check(blocked.channel === 'ALIPAY', 'the alert names ALIPAY');
  check(blocked.window.succeeded + blocked.window.assumed < 7, 'the alert shows fewer than 7 good slots of 10');

  tellBoth({ heals: 'ALIPAY' });
  say('ALIPAY is repaired; nobody calls it until its block of 4 s ends');
  const failed = () => services.A.calls.failed + services.B.calls.failed;
  const failedBefore = failed();
  await until('both checkouts to offer ALIPAY again', 8_000, () => bothOffer('ALIPAY,WECHAT,STRIPE'));
  say(`${green('ALIPAY is back')}: ${offers()}`);
  const recovered = await until('the alert of the recovery', 5_000, () =>
    alerts.find(({ type }) => type === 'channel.recovered'),
  );
  check(recovered.incident === blocked.incident, 'both alerts name one incident');
  check(failed() === failedBefore, 'no call failed while ALIPAY was hidden');
  await until('the news that ALIPAY held', 8_000, () => alerts.find(({ type }) => type === 'channel.held'));
  await until('the last outcomes', 2_000, () => services.A.calls.total > 200);
  check(alerts.length === 3, `three alerts in all, got ${alerts.map(({ type }) => type).join(', ')}`);
  say(green('all of it was checked: blocked once, told once, hidden everywhere, recovered and told'));
}

function check(holds, what) {
  if (!holds) throw new Error(`this should hold: ${what}`);
}

async function close() {
  for (const closer of closers.splice(0).reverse()) await closer();
}

process.once('SIGINT', async () => {
  await close();
  process.exit(130);
});
try {
  await play();
} catch (error) {
  console.error(red(`the demo failed: ${error.message}`));
  process.exitCode = 1;
} finally {
  await close();
}
