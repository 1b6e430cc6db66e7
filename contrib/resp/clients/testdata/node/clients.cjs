// Takes locks with the unchanged clients of Node.js. Arguments: two servers of one mesh, host:port.
'use strict';
const assert = require('node:assert');
const crypto = require('node:crypto');

const [first, second] = process.argv.slice(2).map((a) => {
  const [host, port] = a.split(':');
  return { host, port: Number(port) };
});
const release = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;
const failure = (promise) => promise.then(() => { throw new Error('no error'); }, (err) => err);

async function redlock4() {
  const Redis = require('ioredis');
  const Redlock = require('redlock');
  const [a, b] = [new Redis(first), new Redis(second)];
  const one = new Redlock([a], { retryCount: 0 });
  const two = new Redlock([b], { retryCount: 0 });
  one.on('clientError', (err) => { throw err; });
  const lock = await one.lock('redlock4', 9000);
  assert.match((await failure(two.lock('redlock4', 9000))).message, /Exceeded 0 attempts/);
  await lock.extend(9000);
  assert.equal(await b.get('redlock4'), lock.value);
  await lock.unlock();
  assert.match((await failure(lock.unlock())).message, /Unable to fully release/);
  const several = await one.lock(['redlock4:x', 'redlock4:y', 'redlock4:z'], 9000);
  await failure(two.lock(['redlock4:z', 'redlock4:w'], 9000));
  assert.equal(await b.exists('redlock4:w'), 0);
  await several.extend(9000);
  await several.unlock();
  assert.equal(await b.exists('redlock4:x', 'redlock4:y', 'redlock4:z'), 0);
  const waiting = new Redlock([b], { retryCount: 1000, retryDelay: 10, retryJitter: 5 });
  const held = await one.lock('redlock4', 9000);
  setTimeout(() => held.unlock(), 100);
  await (await waiting.lock('redlock4', 9000)).unlock();
  const errors = [];
  const long = new Redlock([a], { retryCount: 0 });
  long.on('clientError', (err) => errors.push(err.message));
  await failure(long.lock('redlock4', 3600_000));
  assert.match(errors[0], /longer than MaxTTL/);
  a.disconnect();
  b.disconnect();
}

async function redlock5() {
  const Redis = require('ioredis6').Redis ?? require('ioredis6');
  const { default: Redlock, ResourceLockedError } = require('redlock5');
  const [a, b] = [new Redis(first), new Redis(second)];
  const one = new Redlock([a], { retryCount: 0 });
  const two = new Redlock([b], { retryCount: 0 });
  let lock = await one.acquire(['redlock5:x', 'redlock5:y'], 9000);
  let locked;
  two.on('error', (err) => { locked = err; });
  await failure(two.acquire(['redlock5:y'], 9000));
  assert(locked instanceof ResourceLockedError, String(locked));
  lock = await lock.extend(9000);
  await lock.release();
  let held = 0;
  await new Redlock([b]).using(['redlock5:x'], 9000, async (signal) => {
    assert.equal(signal.aborted, false);
    held = await a.exists('redlock5:x');
  });
  assert.equal(held, 1);
  assert.equal(await a.exists('redlock5:x'), 0);
  a.disconnect();
  b.disconnect();
}

async function semaphore() {
  const Redis = require('ioredis');
  const { Mutex, Semaphore } = require('redis-semaphore');
  const [a, b] = [new Redis(first), new Redis(second)];
  const options = { lockTimeout: 9000, acquireTimeout: 20_000, refreshInterval: 100, retryInterval: 10 };
  const one = new Mutex(a, 'redis-semaphore', options);
  const two = new Mutex(b, 'redis-semaphore', options);
  await one.acquire();
  assert.equal(await two.tryAcquire(), false);
  await new Promise((r) => setTimeout(r, 500)); // refreshed five times meanwhile
  assert.equal(one.isAcquired, true);
  setTimeout(() => one.release(), 100);
  await two.acquire();
  await two.release();
  await new Mutex(a, 'default').acquire().then(() => a.del('mutex:default')); // its default is MaxTTL, 10 s
  const refused = await failure(new Semaphore(a, 'redis-semaphore', 2, options).acquire());
  assert.match(refused.message, /sorted sets/);
  a.disconnect();
  b.disconnect();
}

async function common(name, { set, get, evaluate, token, close }) {
  const value = crypto.randomUUID();
  assert.equal(await set(name, value, 9000), 'OK');
  assert.equal(await set(name, 'other', 9000), null);
  assert.equal(await get(name), value);
  assert(Number(await token(name, value)) > 1e15);
  assert.equal(await evaluate(release, name, 'other'), 0);
  assert.equal(await evaluate(release, name, value), 1);
  assert.equal(await get(name), null);
  assert.match((await failure(set(name, value, 3600_000))).message, /longer than MaxTTL/);
  await close();
}

async function ioredis(module) {
  const Redis = require(module).Redis ?? require(module);
  const c = new Redis(first);
  await common(module, {
    set: (k, v, ms) => c.set(k, v, 'PX', ms, 'NX'),
    get: (k) => c.get(k),
    evaluate: (script, k, v) => c.eval(script, 1, k, v),
    token: (k, v) => c.call('LOCKMESH.TOKEN', k, v),
    close: () => c.quit(),
  });
}

async function nodeRedis() {
  const { createClient } = require('redis');
  for (const options of [{}, { RESP: 2 }]) {
    const c = await createClient({ url: `redis://${first.host}:${first.port}`, ...options }).connect();
    await common('node-redis', {
      set: (k, v, ms) => c.set(k, v, { NX: true, PX: ms }),
      get: (k) => c.get(k),
      evaluate: (script, k, v) => c.eval(script, { keys: [k], arguments: [v] }),
      token: (k, v) => c.sendCommand(['LOCKMESH.TOKEN', k, v]),
      close: () => c.close(),
    });
  }
}

(async () => {
  for (const f of [redlock4, redlock5, semaphore, () => ioredis('ioredis'), () => ioredis('ioredis6'), nodeRedis]) {
    await f();
  }
  console.log('ok');
})().catch((err) => {
  console.error(err);
  process.exit(1);
});
