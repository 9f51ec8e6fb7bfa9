// Says on 7 that the interpreter is up, waits on 4 for a job, and gives both up; then Node.js opens the job's file.
const fs = require("node:fs");
fs.writeSync(7, ".");
fs.closeSync(7);
fs.readSync(4, Buffer.alloc(1));
fs.closeSync(4);
