// Command kafkagoclient executes the steps of program_test.go with segmentio/kafka-go, which has no
// idempotent producer. Arguments: bootstrap, topic, milliseconds of idling.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"

	"heartwood.dev/heartwood/test/compat/goclients/steps"
)

var codecs = map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy,
	"lz4": kafka.Lz4, "zstd": kafka.Zstd}

func main() { steps.Main("github.com/segmentio/kafka-go", true, open) }

type client struct {
	kafka.Client
	topic  string
	reader *kafka.Reader
}

func open(bootstrap, topic string) (steps.Client, error) {
	return &client{
		Client: kafka.Client{Addr: kafka.TCP(bootstrap), Timeout: 30 * time.Second},
		topic:  topic,
		reader: kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, Topic: topic,
			MaxWait: 500 * time.Millisecond}),
	}, nil
}

func (c *client) Administer(made string) ([]string, map[string]string, error) {
	ctx := context.Background()
	metadata, err := c.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, nil, err
	}
	var topics []string
	for _, topic := range metadata.Topics {
		topics = append(topics, topic.Name)
	}
	created, err := c.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: made, NumPartitions: 2, ReplicationFactor: 1,
		ConfigEntries: []kafka.ConfigEntry{
			{ConfigName: "cleanup.policy", ConfigValue: "compact"},
			{ConfigName: "compression.type", ConfigValue: "zstd"}},
	}}})
	if err == nil {
		err = created.Errors[made]
	}
	if err != nil {
		return nil, nil, err
	}
	described, err := c.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{
			{ResourceType: kafka.ResourceTypeTopic, ResourceName: made}}})
	if err == nil {
		err = described.Resources[0].Error
	}
	if err != nil {
		return nil, nil, err
	}
	settings := map[string]string{}
	for _, entry := range described.Resources[0].ConfigEntries {
		settings[entry.ConfigName] = entry.ConfigValue
	}
	deleted, err := c.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{made}})
	if err == nil {
		err = deleted.Errors[made]
	}
	return topics, settings, err
}

func (c *client) Produce(codec string, records []steps.Record) error {
	writer := kafka.Writer{Addr: c.Addr, Topic: c.topic, RequiredAcks: kafka.RequireAll,
		Compression: codecs[codec], BatchTimeout: 10 * time.Millisecond}
	var messages []kafka.Message
	for _, r := range records {
		m := kafka.Message{Key: r.Key, Value: r.Value, Time: time.UnixMilli(r.Timestamp)}
		for name, value := range r.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: name, Value: []byte(value)})
		}
		messages = append(messages, m)
	}
	if err := writer.WriteMessages(context.Background(), messages...); err != nil {
		return err
	}
	return writer.Close()
}

func (c *client) SeekTo(offset int64) error { return c.reader.SetOffset(offset) }

func (c *client) OffsetAt(timestamp int64) (int64, error) {
	err := c.reader.SetOffsetAt(context.Background(), time.UnixMilli(timestamp))
	return c.reader.Offset(), err
}

func (c *client) Next(timeout time.Duration) (steps.Record, bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	m, err := c.reader.FetchMessage(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return steps.Record{}, false, nil
	}
	r := steps.Record{Offset: m.Offset, Timestamp: m.Time.UnixMilli(), Key: m.Key, Value: m.Value,
		Headers: map[string]string{}}
	for _, h := range m.Headers {
		r.Headers[h.Key] = string(h.Value)
	}
	return r, err == nil, err
}

func (c *client) BeginTransaction(id string) error {
	response, err := c.InitProducerID(context.Background(), &kafka.InitProducerIDRequest{
		Addr: c.Addr, TransactionalID: id, TransactionTimeoutMs: 60_000})
	if err != nil {
		return err
	}
	return response.Error
}
