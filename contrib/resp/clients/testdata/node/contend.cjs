// Takes a lock so many times, and notes each time it held the lock: SERVER KEY ROUNDS FILE.
'use strict';
const fs = require('node:fs');
const Redis = require('ioredis');
const Redlock = require('redlock');
const [server, key, rounds, file] = process.argv.slice(2);
(async () => {
  const [host, port] = server.split(':');
  const client = new Redis({ host, port: Number(port) });
  const redlock = new Redlock([client], { retryCount: 100_000, retryDelay: 2, retryJitter: 2 });
  for (let i = 0; i < Number(rounds); i++) {
    const lock = await redlock.lock(key, 9000);
    const token = await client.call('LOCKMESH.TOKEN', key, lock.value);
    fs.appendFileSync(file, `begin node ${token}\n`);
    fs.appendFileSync(file, `end node ${token}\n`);
    await lock.unlock();
  }
  client.disconnect();
})().catch((err) => {
  console.error(err);
  process.exit(1);
});
