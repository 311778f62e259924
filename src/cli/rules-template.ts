/** What `fuseline rules init` writes: valid as it is, safe as it is (it hides nothing), with what one wants to change next. */
export const rulesTemplate = `# Rules of Fuseline. Check with "fuseline rules check", put into force with "fuseline rules set".
version: 1

# on: failing channels are blocked. observe: one is only told that they would be. off: not judged.
mode: observe

# A channel is blocked when fewer than successRate percent of its last \`window\` calls succeeded; calls not yet seen count as successes.
defaults:
  window: 10
  successRate: 70
  block: 30m
  hold: 30m

# Several channels with the same needs share a policy by name.
policies:
  patient: { window: 50, successRate: 50, block: { for: 5m, growth: 2, max: 1h } }

# A whole name, or a pattern with *. Of patterns the first that matches wins.
channels:
  ALIPAY: { group: pay, ignore: [USER_CANCELLED] }
  'sms-*': { policy: patient, group: sms }

# Never show fewer than this many of a group, whatever their states.
groups:
  pay: { minVisible: 1 }

# Who is told. Secrets are best kept out of this file: env:NAME and file:/path are read by the process that delivers.
# receivers:
#   ops: { type: webhook, url: env:OPS_WEBHOOK_URL, secret: env:OPS_WEBHOOK_SECRET }
# routes:
#   - { match: { group: pay }, to: [ops] }
`;
