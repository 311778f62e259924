import type { Role } from './context.js';
import type { RoleName } from './role-names.js';
import { alerts } from './roles/alerts.js';
import { outcomes } from './roles/outcomes.js';
import { recovery } from './roles/recovery.js';

/** All three in one process is the default; each also runs alone, in any number. */
export const ROLES: Readonly<Record<RoleName, Role>> = { outcomes, recovery, alerts };
