#!/usr/bin/env node
// Tells people. Any number of these may run.
import { main } from '../src/process/main.js';

await main(['alerts']);
