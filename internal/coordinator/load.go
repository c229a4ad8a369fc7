package coordinator

import (
	"fmt"
	"io"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/timer"
)

const (
	// loadBytes is how much of the log is read at once.
	loadBytes = 4 << 20
	// recordsBytesMax bounds what a batch of the log may decompress to.
	recordsBytesMax = 128 << 20
	// batchBytes is how large a batch becomes that we write, unless a single record is larger, or
	// the topic takes less.
	batchBytes = 512 << 10
	// recordBytes is what a record takes beside its key and value, at most.
	recordBytes = 32
)

// load makes a new state of the whole log, also of what is above the high watermark: in this epoch
// it stays.
func (s *shard) load() error {
	log, err := s.runtime.opts.Replicas.Leader(s.id, s.epoch)
	if err != nil {
		return err
	}
	s.waiting, s.timers = map[group.Token]chan<- answered{}, map[group.TimerKey]*timer.Entry[due]{}
	s.state = group.New(s.runtime.groupConfig(metadata.Groups{}), s) // look configures it
	var buffer []byte
	end := log.LogEnd()
	for offset := log.LogStart(); offset < end && s.ctx.Err() == nil; {
		if buffer, err = read(log, offset, end, buffer); err != nil {
			return err
		}
		next, err := s.replay(buffer, offset)
		if err != nil {
			return err
		}
		if next <= offset {
			break // only batches without records are left
		}
		offset = next
	}
	s.last = end - 1
	return s.ctx.Err()
}

// read reads whole batches from an offset on.
func read(log *logstore.Log, offset, end int64, buffer []byte) ([]byte, error) {
	slice, err := log.Read(offset, end, loadBytes, true)
	if err != nil {
		return nil, err
	}
	defer slice.Release()
	if slice.Length > cap(buffer) {
		buffer = make([]byte, slice.Length)
	}
	buffer = buffer[:slice.Length]
	if slice.Length == 0 {
		return buffer, nil
	}
	if _, err := io.ReadFull(io.NewSectionReader(slice.File, slice.Position, int64(slice.Length)),
		buffer); err != nil {
		return nil, fmt.Errorf("read at offset %d: %w", offset, err)
	}
	return buffer, nil
}

// replay replays batches, and returns the offset behind them. Control batches and transactional
// ones are passed over: transactions are not served, so nobody commits offsets in one.
func (s *shard) replay(batches []byte, offset int64) (next int64, err error) {
	now := time.Now()
	for next = offset; len(batches) > 0; {
		batch, rest, err := record.Next(batches)
		if err == nil {
			err = batch.CheckCRC()
		}
		if err != nil {
			return next, fmt.Errorf("batch at or behind offset %d: %w", next, err)
		}
		batches, next = rest, batch.NextOffset()
		if batch.Control() || batch.Transactional() {
			continue
		}
		err = batch.Records(recordsBytesMax, func(r *record.Record) error {
			if _, err := s.state.Replay(now, r.Key, r.Value); err != nil {
				return fmt.Errorf("record at offset %d: %w", r.Offset, err)
			}
			return nil
		})
		if err != nil {
			return next, err
		}
	}
	return next, nil
}

// build makes a batch of the first n records, as many as fit.
func (s *shard) build(now time.Time, records []group.Record) (batch []byte, n int, err error) {
	size, limit := record.HeaderBytes, batchBytes
	if most := s.runtime.view.Load().batchBytes; most > 0 {
		limit = min(limit, most)
	}
	for n < len(records) && (n == 0 || size+len(records[n].Key)+len(records[n].Value)+
		recordBytes <= limit) {
		size += len(records[n].Key) + len(records[n].Value) + recordBytes
		n++
	}
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	builder.Reset(record.Identity{
		LastOffsetDelta: int32(n - 1), LeaderEpoch: -1, ProducerID: -1, ProducerEpoch: -1,
		BaseSequence: -1,
	})
	for i, r := range records[:n] {
		builder.Add(&record.Record{Offset: int64(i), Timestamp: now.UnixMilli(), Key: r.Key,
			Value: r.Value})
	}
	batch, err = builder.Build(nil)
	return batch, n, err
}
