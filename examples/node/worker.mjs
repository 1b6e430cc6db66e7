// A worker: one at a time in the whole mesh.
//
//   node worker.mjs /run/lockmesh/lockmesh.sock
import { setTimeout as sleep } from "node:timers/promises";
import { Held, hold } from "./lockmesh.mjs";

const options = { socketPath: process.argv[2], wait: "2s", value: "the Node worker" };
try {
  await hold("jobs/report", async ({ token, signal, check }) => {
    console.log("working with token", token);
    for (let step = 0; step < 3; step++) {
      await sleep(100, undefined, { signal }); // the work; ends early if the lock is lost
      check(); // after a pause of the machine the signal may come too late
      console.log("step", step);
    }
  }, options);
} catch (error) {
  if (error instanceof Held) console.error("another worker is at it:", error.message);
  else console.error("the work has ended:", error.cause?.message ?? error.message);
  process.exitCode = 1;
}
