#!/usr/bin/env node
// Reads outcomes and judges channels. Any number of these may run; they share the shards of the log.
import { main } from '../src/process/main.js';

await main(['outcomes']);
