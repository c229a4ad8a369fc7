// kafkajs.js BOOTSTRAP creates topics with kafkajs: one with default arguments, which sends -1
// partitions and replicas in CreateTopics version 3, and one with assigned replicas, to which it
// adds a partition. It writes one record to each and reads both. It prints lines of JSON.
const { Kafka, logLevel } = require('kafkajs')

const print = (step, observed) => console.log(JSON.stringify({ step, ...observed }))

async function main() {
  const kafka = new Kafka({ brokers: process.argv[2].split(','), logLevel: logLevel.NOTHING })
  const admin = kafka.admin()
  await admin.connect()
  print('client', { version: 'kafkajs ' + require('kafkajs/package.json').version })
  await admin.createTopics({ topics: [{ topic: 'plain' }] })
  await admin.createTopics({
    topics: [{
      topic: 'placed',
      replicaAssignment: [{ partition: 1, replicas: [0, 1] }, { partition: 0, replicas: [2, 0] }],
    }],
  })
  await admin.createPartitions({
    topicPartitions: [{ topic: 'placed', count: 3, assignments: [[1, 2]] }],
  })
  for (const replicas of [[2, 2], [2, 3], [2]]) {
    const wrong = [{ partition: 0, replicas: [0, 1] }, { partition: 1, replicas }]
    try {
      await admin.createTopics({ topics: [{ topic: 'wrong', replicaAssignment: wrong }] })
      print('accepted', { replicas })
    } catch (e) {
      print('rejected', { replicas, error: e.errors[0].type })
    }
  }
  // The broker that answers may learn of the added partition later than the one that added it.
  let topics
  do {
    ({ topics } = await admin.fetchTopicMetadata({ topics: ['plain', 'placed'] }))
  } while (topics.find((t) => t.name === 'placed').partitions.length < 3)
  for (const { name, partitions } of topics) {
    partitions.sort((a, b) => a.partitionId - b.partitionId)
    print('topic', { name, partitions: partitions.map((p) => p.replicas) })
  }
  await admin.disconnect()

  const producer = kafka.producer()
  await producer.connect()
  for (const topic of ['plain', 'placed']) {
    await producer.send({ topic, messages: [{ key: 'key', value: topic }] })
  }
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: 'readers' })
  await consumer.connect()
  await consumer.subscribe({ topics: ['plain', 'placed'], fromBeginning: true })
  const read = new Set()
  await new Promise((resolve) => consumer.run({
    eachMessage: async ({ topic, message }) => {
      print('record', { topic, value: message.value.toString() })
      if (read.add(topic).size === 2) resolve()
    },
  }))
  await consumer.disconnect()
}

main().catch((e) => { console.error(e); process.exit(1) })
