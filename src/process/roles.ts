import type { Role } from './context.js';
import { alerts } from './roles/alerts.js';
import { outcomes } from './roles/outcomes.js';
import { recovery } from './roles/recovery.js';

/** What a process can be. All three in one process is the default; each also runs alone, in any number. */
export const ROLES = { outcomes, recovery, alerts } as const satisfies Record<string, Role>;

export type RoleName = keyof typeof ROLES;

/** In the order in which they are told to people. */
export const ROLE_NAMES = Object.keys(ROLES) as RoleName[];
