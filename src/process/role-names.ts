/** What a process can be, in the order in which they are told to people. Apart from the roles, which are heavy to load. */
export const ROLE_NAMES = ['outcomes', 'recovery', 'alerts'] as const;

export type RoleName = (typeof ROLE_NAMES)[number];
