#!/usr/bin/env node
// Brings channels back when their blocks end, and tidies up. Any number of these may run.
import { main } from '../src/process/main.js';

await main(['recovery']);
