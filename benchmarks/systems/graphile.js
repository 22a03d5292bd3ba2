// graphile-worker: the same orders as benchmarks/adapter.py, for Node.
const fs = require("node:fs");
const readline = require("node:readline");
const { makeWorkerUtils, run } = require("graphile-worker");
const { Pool } = require("pg");

const connectionString = process.env.DATABASE_URL;
const options = JSON.parse(process.env.BENCHMARK_OPTIONS || "{}");
const UNFINISHED = "SELECT count(*)::int AS number FROM graphile_worker._private_jobs";

// CLOCK_MONOTONIC in seconds, the same clock as Python's time.monotonic().
const now = () => Number(process.hrtime.bigint()) / 1e9;
const sleep = (seconds) => new Promise((wake) => setTimeout(wake, 1000 * seconds));

class Producer {
  async start() {
    this.pool = new Pool({ connectionString, max: 2 });
    this.utils = await makeWorkerUtils({ pgPool: this.pool });
  }

  enqueue(task, number) {
    return this.utils.addJob(task, { number });
  }

  enqueueMany(task, numbers) {
    const jobs = numbers.map((number) => ({ identifier: task, payload: { number } }));
    return this.utils.addJobs(jobs);
  }

  async enqueue_singly({ number }) {
    const begun = now();
    for (let each = 0; each < number; each++) await this.enqueue("noop", each);
    return now() - begun;
  }

  async enqueue_at_once({ number }) {
    const begun = now();
    await this.enqueueMany("noop", [...Array(number).keys()]);
    return now() - begun;
  }

  async enqueue_steadily({ first, number, rate, batch = 1 }) {
    const begun = now();
    const enqueued = [];
    for (let each = first; each < first + number; each += batch) {
      await sleep(Math.max(begun + (each - first) / rate - now(), 0));
      const numbers = Array.from({ length: batch }, (_, index) => each + index);
      const before = now();
      if (batch === 1) await this.enqueue("stamp", each);
      else await this.enqueueMany("stamp", numbers);
      const after = now();
      for (const one of numbers) enqueued.push([one, before, after]);
    }
    return enqueued;
  }

  async unfinished() {
    return (await this.pool.query(UNFINISHED)).rows[0].number;
  }
}

async function produce() {
  const producer = new Producer();
  await producer.start();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [act, given] = JSON.parse(line);
    process.stdout.write(JSON.stringify(await producer[act](given)) + "\n");
  }
  process.exit();
}

async function setup() {
  const utils = await makeWorkerUtils({ connectionString });
  await utils.migrate();
  await utils.release();
}

async function work() {
  const stamps = fs.openSync(process.env.BENCHMARK_STAMPS, "a");
  const taskList = {
    noop: async () => {},
    stamp: async ({ number }) => {
      const started = now();
      fs.writeSync(stamps, `${number} ${started}\n`);
    },
  };
  const preset = { worker: { connectionString, maxPoolSize: 11, ...options } };
  await (await run({ preset, taskList })).promise;
}

({ setup, produce, work })[process.argv[2]]();
