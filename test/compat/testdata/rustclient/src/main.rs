//! The steps of program_test.go with rust-rdkafka. Arguments: bootstrap, topic, milliseconds of
//! idling.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, FutureProducer, FutureRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{json, Map, Value};

const BEGIN: i64 = 1_700_000_000_000;
const WAIT: Duration = Duration::from_secs(30);
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

fn say(step: &str, mut fields: Map<String, Value>) {
    fields.insert("step".into(), step.into());
    println!("{}", Value::Object(fields));
}

fn fields(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn text(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Null, |b| String::from_utf8_lossy(b).into())
}

fn record(source: &str, m: &BorrowedMessage) {
    let mut headers = Map::new();
    for header in m.headers().into_iter().flat_map(|h| h.iter()) {
        headers.insert(header.key.into(), text(header.value));
    }
    say("record", fields(json!({"source": source, "offset": m.offset(),
        "timestamp": m.timestamp().to_millis(), "key": text(m.key()),
        "value": text(m.payload()), "headers": headers})));
}

/// Returns the version of rust-rdkafka in the lock file.
fn library() -> &'static str {
    let (_, rest) = include_str!("../Cargo.lock").split_once("name = \"rdkafka\"\nversion = \"")
        .unwrap();
    rest.split_once('"').unwrap().0
}

fn config(bootstrap: &str, settings: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config
}

async fn administer(bootstrap: &str, topic: &str) {
    let admin: AdminClient<DefaultClientContext> = config(bootstrap, &[]).create().unwrap();
    let metadata = admin.inner().fetch_metadata(None, WAIT).unwrap();
    let mut topics: Vec<&str> = metadata.topics().iter().map(|t| t.name()).collect();
    topics.sort();
    say("list", fields(json!({"topics": topics})));
    let made = format!("{topic}-made");
    let options = AdminOptions::new();
    let new = NewTopic::new(&made, 2, TopicReplication::Fixed(1))
        .set("cleanup.policy", "compact")
        .set("compression.type", "zstd");
    for result in admin.create_topics(&[new], &options).await.unwrap() {
        result.unwrap();
    }
    let resource = ResourceSpecifier::Topic(&made);
    let described = admin.describe_configs(&[resource], &options).await.unwrap();
    let configs: BTreeMap<String, Option<String>> = described.into_iter()
        .flat_map(|resource| resource.unwrap().entries)
        .map(|entry| (entry.name, entry.value))
        .collect();
    say("describe", fields(json!({"configs": configs})));
    for result in admin.delete_topics(&[&made], &options).await.unwrap() {
        result.unwrap();
    }
    say("deleted", Map::new());
}

/// Sends the records of all codecs, and returns their number.
async fn produce(bootstrap: &str, topic: &str) -> i64 {
    let mut number = 0;
    for codec in CODECS {
        let producer: FutureProducer = config(bootstrap, &[("enable.idempotence", "true"),
            ("compression.type", codec), ("linger.ms", "500")]).create().unwrap();
        let (key, value) = (format!("{codec}-key"), format!("{codec} ").repeat(100));
        let unkeyed = format!("{codec} without a key ").repeat(100);
        let mut sent = Vec::new();
        let records = [(Some(&key), Some(&value)), (Some(&key), None), (None, Some(&unkeyed))];
        for (key, value) in records {
            let headers = OwnedHeaders::new().insert(Header { key: "codec", value: Some(codec) });
            let mut record: FutureRecord<String, String> = FutureRecord::to(topic).partition(0)
                .timestamp(BEGIN + number * 1000).headers(headers);
            record.key = key;
            record.payload = value;
            sent.push(producer.send_result(record).map_err(|(e, _)| e).unwrap());
            number += 1;
        }
        for delivery in sent {
            delivery.await.unwrap().map_err(|(e, _)| e).unwrap();
        }
        producer.flush(WAIT).unwrap();
    }
    number
}

fn assign(consumer: &BaseConsumer, topic: &str, offset: Offset) {
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(topic, 0, offset).unwrap();
    consumer.assign(&partitions).unwrap();
}

fn read(consumer: &BaseConsumer, source: &str, count: i64) {
    for _ in 0..count {
        record(source, &consumer.poll(WAIT).expect("no record came").unwrap());
    }
}

async fn consume(bootstrap: &str, topic: &str, idle: Duration, number: i64) {
    // librdkafka requires group.id, also without a group.
    let consumer: BaseConsumer = config(bootstrap, &[("group.id", "not-used"),
        ("enable.auto.commit", "false"), ("fetch.wait.max.ms", "500")]).create().unwrap();
    assign(&consumer, topic, Offset::Beginning);
    read(&consumer, "beginning", number);
    let mut times = TopicPartitionList::new();
    times.add_partition_offset(topic, 0, Offset::Offset(BEGIN + 4 * 1000 - 500)).unwrap();
    let found = consumer.offsets_for_times(times, WAIT).unwrap();
    let at = found.elements()[0].offset().to_raw().unwrap();
    assign(&consumer, topic, Offset::Offset(at));
    read(&consumer, "timestamp", number - at);
    assign(&consumer, topic, Offset::End);
    say("idle", Map::new());
    assert!(consumer.poll(idle).is_none(), "end: a record came that nobody sent");
    say("idled", Map::new());
    let producer: FutureProducer = config(bootstrap, &[]).create().unwrap();
    let last = FutureRecord::to(topic).partition(0).timestamp(BEGIN + number * 1000)
        .key("last").payload("while the consumer waits");
    producer.send(last, WAIT).await.map_err(|(e, _)| e).unwrap();
    read(&consumer, "end", 1);
}

fn begin_transaction(bootstrap: &str, topic: &str) {
    let id = format!("{topic}-id");
    let producer: BaseProducer = config(bootstrap, &[("transactional.id", &id)]).create().unwrap();
    let started = Instant::now();
    let error = producer.init_transactions(Duration::from_secs(60)).err();
    say("transaction", fields(json!({"seconds": started.elapsed().as_secs_f64(),
        "error": error.map_or(String::new(), |e| e.to_string())})));
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (bootstrap, topic) = (&args[1], &args[2]);
    let idle = Duration::from_millis(args[3].parse().unwrap());
    let (_, librdkafka) = rdkafka::util::get_rdkafka_version();
    say("client", fields(json!({
        "version": format!("rust-rdkafka {}, librdkafka {librdkafka}", library())})));
    administer(bootstrap, topic).await;
    let number = produce(bootstrap, topic).await;
    consume(bootstrap, topic, idle, number).await;
    begin_transaction(bootstrap, topic);
}
