// The steps of program_test.go with kafkajs. Arguments: bootstrap, topic, milliseconds of idling.
const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic, idleMs] = process.argv.slice(2)
const begin = 1_700_000_000_000
const say = (step, observed) => console.log(JSON.stringify({ step, ...observed }))
const text = (buffer) => (buffer === null ? null : buffer.toString())
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING })
const admin = kafka.admin()

async function administer() {
  say('list', { topics: (await admin.listTopics()).sort() })
  const made = topic + '-made'
  const configEntries = [
    { name: 'cleanup.policy', value: 'compact' }, { name: 'compression.type', value: 'zstd' },
  ]
  await admin.createTopics({
    topics: [{ topic: made, numPartitions: 2, replicationFactor: 1, configEntries }],
  })
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: made }],
  })
  const entries = resources[0].configEntries.map((e) => [e.configName, e.configValue])
  say('describe', { configs: Object.fromEntries(entries) })
  await admin.deleteTopics({ topics: [made] })
  // Without a number of partitions and replicas kafkajs sends -1 for both.
  await admin.createTopics({ topics: [{ topic: made + '-by-default' }] })
  await admin.deleteTopics({ topics: [made + '-by-default'] })
  say('deleted')
}

// produce sends the records of all codecs that kafkajs contains, and returns their number.
async function produce() {
  const producer = kafka.producer({ idempotent: true })
  await producer.connect()
  let number = 0
  const contained = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }
  for (const codec of ['none', 'gzip', 'snappy', 'lz4', 'zstd']) {
    const compression = contained[codec]
    if (compression === undefined) {
      say('missing', { codec }) // kafkajs needs a further module for each of these codecs
      continue
    }
    const pairs = [[`${codec}-key`, `${codec} `.repeat(100)], [`${codec}-key`, null],
      [null, `${codec} without a key `.repeat(100)]]
    const messages = pairs.map(([key, value]) => (
      { key, value, partition: 0, timestamp: String(begin + number++ * 1000), headers: { codec } }
    ))
    await producer.send({ topic, compression, acks: -1, messages })
  }
  await producer.disconnect()
  return number
}

// consume reads in a group, because kafkajs has no other consumer. It joins once for each source.
async function consume(number) {
  for (const [source, from] of [['beginning', 0], ['timestamp', begin + 4 * 1000 - 500]]) {
    const [{ offset }] = await admin.fetchTopicOffsetsByTimestamp(topic, from)
    await read(source, offset, number - Number(offset))
  }
  await read('end', String(number), 1, async () => {
    say('idle')
    await new Promise((resolve) => setTimeout(resolve, Number(idleMs)))
    say('idled')
    const producer = kafka.producer()
    await producer.connect()
    const timestamp = String(begin + number * 1000)
    await producer.send({
      topic, messages: [{ key: 'last', value: 'while the consumer waits', partition: 0, timestamp }],
    })
    await producer.disconnect()
  })
}

// read reads a number of records from an offset. It calls joined once, after the consumer has its
// partition.
async function read(source, offset, count, joined) {
  const consumer = kafka.consumer({ groupId: source, maxWaitTimeInMs: 500 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await new Promise((resolve, reject) => {
    if (joined) {
      consumer.on(consumer.events.GROUP_JOIN, () => joined().catch(reject))
    }
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ message: m }) => {
        if (count-- <= 0) return
        const headers = Object.entries(m.headers).map(([k, v]) => [k, text(v)])
        say('record', {
          source, offset: Number(m.offset), timestamp: Number(m.timestamp), key: text(m.key),
          value: text(m.value), headers: Object.fromEntries(headers),
        })
        if (count === 0) resolve()
      },
    })
    consumer.seek({ topic, partition: 0, offset })
  })
  await consumer.disconnect()
}

async function beginTransaction() {
  const producer = kafka.producer({ transactionalId: topic + '-id', maxInFlightRequests: 1 })
  const started = Date.now()
  let error = ''
  try {
    await producer.connect()
    await (await producer.transaction()).abort()
  } catch (e) {
    error = e.message
  }
  say('transaction', { seconds: (Date.now() - started) / 1000, error })
  await producer.disconnect()
}

async function main() {
  say('client', { version: 'kafkajs ' + require('kafkajs/package.json').version })
  await admin.connect()
  await administer()
  await consume(await produce())
  await beginTransaction()
  await admin.disconnect()
}

main().catch((e) => { console.error(e); process.exit(1) })
