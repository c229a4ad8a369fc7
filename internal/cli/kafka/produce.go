package kafka

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/kafkaclient"
)

const (
	// lineBytesMax is the maximum length of a line.
	lineBytesMax = 64 << 20
	// deliveryTimeout limits the time until a record is acknowledged.
	deliveryTimeout = time.Minute
)

// Produce describes how to write records.
type Produce struct {
	Topic string
	// Partition is the partition for all records; -1: the key's hash selects the partition.
	Partition int32
	// Separator separates the key from the value in each line; "": the records have no keys.
	Separator string
	// Tombstones makes an empty value a null value, which deletes the key.
	Tombstones bool
}

// record returns the record for a line.
func (p Produce) record(line []byte) (*kgo.Record, error) {
	r := &kgo.Record{Value: bytes.Clone(line)}
	if p.Partition >= 0 {
		r.Partition = p.Partition
	}
	if p.Separator != "" {
		key, value, found := bytes.Cut(r.Value, []byte(p.Separator))
		if !found {
			return nil, fmt.Errorf("no separator %q after the key", p.Separator)
		}
		r.Key, r.Value = key, value
	}
	if p.Tombstones && len(r.Value) == 0 {
		r.Value = nil
	}
	return r, nil
}

// results collects the results of sending records. It is safe for concurrent use.
type results struct {
	mu      sync.Mutex
	written int
	err     error // the first error
}

func (r *results) add(_ *kgo.Record, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.written++
	} else if r.err == nil {
		r.err = err
	}
}

func (r *results) get() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written, r.err
}

// Write writes each line of in as a record with acks=all, and stops at the first error. It returns
// the number of acknowledged records.
func Write(ctx context.Context, o kafkaclient.Options, produce Produce, in io.Reader) (int, error) {
	options := []kgo.Opt{kgo.DefaultProduceTopic(produce.Topic),
		kgo.RecordDeliveryTimeout(deliveryTimeout)}
	if produce.Partition >= 0 {
		options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	client, err := kafkaclient.Connect(ctx, o, options...)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	var all results
	fault := writeLines(ctx, client, produce, in, &all)
	if err := client.Flush(ctx); err != nil {
		fault = errors.Join(fault, err)
	}
	written, err := all.get()
	if err != nil {
		err = fmt.Errorf("write to topic %s: %w", produce.Topic, err)
	}
	return written, errors.Join(err, fault)
}

func writeLines(ctx context.Context, client *kgo.Client, produce Produce, in io.Reader,
	all *results) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), lineBytesMax)
	for number := 1; lines.Scan(); number++ {
		if _, err := all.get(); err != nil || ctx.Err() != nil {
			return ctx.Err()
		}
		r, err := produce.record(lines.Bytes())
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		client.Produce(ctx, r, all.add)
	}
	return lines.Err()
}
