// Says on 4 that the interpreter is up, waits on 3 for a job, and gives both up; then Node.js opens the job's file.
const fs = require("node:fs");
fs.writeSync(4, ".");
fs.closeSync(4);
fs.readSync(3, Buffer.alloc(1));
fs.closeSync(3);
