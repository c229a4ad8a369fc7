package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// verify compares the output with the input, and returns the number of records in the output.
func (c *copier) verify(ctx context.Context) (records int, err error) {
	admin := kadm.NewClient(c.server.producing())
	inputEnd, err := admin.ListEndOffsets(ctx, c.from)
	if err != nil {
		return 0, fmt.Errorf("list the end offsets of %s: %w", c.from, err)
	}
	missing := map[string]string{} // values of records that are not yet found, by position
	err = c.read(ctx, c.start, inputEnd, func(r *kgo.Record) error {
		missing[position(r)] = string(r.Value)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", c.from, err)
	}
	outputStart, err := admin.ListStartOffsets(ctx, c.to)
	if err != nil {
		return 0, fmt.Errorf("list the start offsets of %s: %w", c.to, err)
	}
	// All transactions have ended, so the last stable offset is the log end offset.
	outputEnd, err := admin.ListEndOffsets(ctx, c.to)
	if err != nil {
		return 0, fmt.Errorf("list the end offsets of %s: %w", c.to, err)
	}
	err = c.read(ctx, outputStart, outputEnd, func(r *kgo.Record) error {
		if value, ok := missing[string(r.Key)]; !ok || value != string(r.Value) {
			return fmt.Errorf("record %s of %s is the copy of no record, or the second copy: %q",
				position(r), c.to, r.Key)
		}
		delete(missing, string(r.Key))
		records++
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", c.to, err)
	}
	for key := range missing {
		return 0, fmt.Errorf("%d records were not copied, such as %s", len(missing), key)
	}
	return records, nil
}

// read passes the committed records of all partitions between two offsets to the function use. A
// partition of the output ends with a transaction marker, so markers are read in order to detect
// the end.
func (c *copier) read(ctx context.Context, start, end kadm.ListedOffsets,
	use func(*kgo.Record) error) error {
	from, left := map[string]map[int32]kgo.Offset{}, map[int32]int64{}
	end.Each(func(to kadm.ListedOffset) {
		if begin, ok := start.Lookup(to.Topic, to.Partition); ok && begin.Offset < to.Offset {
			if from[to.Topic] == nil {
				from[to.Topic] = map[int32]kgo.Offset{}
			}
			from[to.Topic][to.Partition] = kgo.NewOffset().At(begin.Offset)
			left[to.Partition] = to.Offset
		}
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(c.server.bootstrap...),
		kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.WithLogger(logger("check ")))
	if err != nil {
		return fmt.Errorf("create a consumer: %w", err)
	}
	defer client.Close()
	for len(left) > 0 {
		polled := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("%d partitions are not read to the end: %w", len(left), ctx.Err())
		}
		for _, r := range polled.Records() {
			if !r.Attrs.IsControl() {
				if err := use(r); err != nil {
					return err
				}
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		}
	}
	return nil
}
