// Command saramaclient executes the steps of program_test.go with sarama. Arguments: bootstrap,
// topic, milliseconds of idling.
package main

import (
	"maps"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"heartwood.dev/heartwood/test/compat/goclients/steps"
)

var codecs = map[string]sarama.CompressionCodec{"": sarama.CompressionNone,
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4,
	"zstd": sarama.CompressionZSTD}

func main() { steps.Main("github.com/IBM/sarama", false, open) }

type client struct {
	addresses []string
	topic     string
	client    sarama.Client
	consumer  sarama.Consumer
	partition sarama.PartitionConsumer
}

func open(bootstrap, topic string) (steps.Client, error) {
	c := &client{addresses: []string{bootstrap}, topic: topic}
	var err error
	if c.client, err = sarama.NewClient(c.addresses, config()); err != nil {
		return nil, err
	}
	c.consumer, err = sarama.NewConsumerFromClient(c.client)
	return c, err
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.MaxWaitTime = 500 * time.Millisecond
	config.Consumer.Return.Errors = true
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	return config
}

func (c *client) Administer(made string) ([]string, map[string]string, error) {
	admin, err := sarama.NewClusterAdmin(c.addresses, config())
	if err != nil {
		return nil, nil, err
	}
	defer admin.Close()
	topics, err := admin.ListTopics()
	if err != nil {
		return nil, nil, err
	}
	compact, zstd := "compact", "zstd"
	err = admin.CreateTopic(made, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1,
		ConfigEntries: map[string]*string{"cleanup.policy": &compact,
			"compression.type": &zstd}}, false)
	if err != nil {
		return nil, nil, err
	}
	entries, err := admin.DescribeConfig(
		sarama.ConfigResource{Type: sarama.TopicResource, Name: made})
	if err != nil {
		return nil, nil, err
	}
	settings := map[string]string{}
	for _, entry := range entries {
		settings[entry.Name] = entry.Value
	}
	return slices.Sorted(maps.Keys(topics)), settings, admin.DeleteTopic(made)
}

func (c *client) Produce(codec string, records []steps.Record) error {
	config := config()
	config.Producer.Compression = codecs[codec]
	if codec != "" {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1 // sarama requires it for idempotence
	}
	producer, err := sarama.NewSyncProducer(c.addresses, config)
	if err != nil {
		return err
	}
	var messages []*sarama.ProducerMessage
	for _, r := range records {
		m := &sarama.ProducerMessage{Topic: c.topic, Timestamp: time.UnixMilli(r.Timestamp)}
		if r.Key != nil {
			m.Key = sarama.ByteEncoder(r.Key)
		}
		if r.Value != nil {
			m.Value = sarama.ByteEncoder(r.Value)
		}
		for name, value := range r.Headers {
			m.Headers = append(m.Headers,
				sarama.RecordHeader{Key: []byte(name), Value: []byte(value)})
		}
		messages = append(messages, m)
	}
	if err := producer.SendMessages(messages); err != nil {
		return err
	}
	return producer.Close()
}

func (c *client) SeekTo(offset int64) error {
	if c.partition != nil {
		if err := c.partition.Close(); err != nil {
			return err
		}
	}
	var err error
	c.partition, err = c.consumer.ConsumePartition(c.topic, 0, offset)
	return err
}

func (c *client) OffsetAt(timestamp int64) (int64, error) {
	return c.client.GetOffset(c.topic, 0, timestamp)
}

func (c *client) Next(timeout time.Duration) (steps.Record, bool, error) {
	select {
	case m := <-c.partition.Messages():
		r := steps.Record{Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli(), Key: m.Key,
			Value: m.Value, Headers: map[string]string{}}
		for _, h := range m.Headers {
			r.Headers[string(h.Key)] = string(h.Value)
		}
		return r, true, nil
	case err := <-c.partition.Errors():
		return steps.Record{}, false, err
	case <-time.After(timeout):
		return steps.Record{}, false, nil
	}
}

func (c *client) BeginTransaction(id string) error {
	config := config()
	config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	config.Producer.Transaction.ID = id
	producer, err := sarama.NewSyncProducer(c.addresses, config)
	if err != nil {
		return err
	}
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	if err := producer.AbortTxn(); err != nil {
		return err
	}
	return producer.Close()
}
