package runtime

import (
	"fmt"
	"io"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/state"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/timer"
)

const (
	// readBytes is the maximum size of one read of the log.
	readBytes = 4 << 20
	// batchRecordsBytesMax limits the size of the decompressed records of a batch.
	batchRecordsBytesMax = 128 << 20
)

// load replays the whole log into a new machine, including the records above the high watermark,
// because the leader keeps these records in its log.
func (s *Shard[S, K, A]) load() error {
	log, err := s.runtime.opts.Replicas.Leader(s.id, s.epoch)
	if err != nil {
		return err
	}
	s.waiting = map[state.Token]chan<- answered[A]{}
	s.timers = map[K]*timer.Entry[dueTimer[S, K, A]]{}
	s.machine = s.runtime.opts.NewMachine(s)
	s.transactional, _ = any(s.machine).(TransactionalMachine[A])
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
			break // there are no records between offset and the end of the log
		}
		offset = next
	}
	s.last = end - 1
	return s.ctx.Err()
}

// read reads whole batches, starting with the batch that contains the given offset.
func read(log *logstore.Log, offset, end int64, buffer []byte) ([]byte, error) {
	slice, err := log.Read(offset, end, readBytes, true)
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

// replay replays batches and returns the offset after the last one. If the machine is not a
// TransactionalMachine, replay skips control batches and transactional batches.
func (s *Shard[S, K, A]) replay(batches []byte, offset int64) (next int64, err error) {
	now := time.Now()
	for next = offset; len(batches) > 0; {
		batch, rest, err := record.Next(batches)
		if err == nil {
			err = batch.CheckCRC()
		}
		if err != nil {
			return next, fmt.Errorf("read batch at or after offset %d: %w", next, err)
		}
		batches, next = rest, batch.NextOffset()
		if err := s.replayBatch(now, batch); err != nil {
			return next, err
		}
	}
	return next, nil
}

func (s *Shard[S, K, A]) replayBatch(now time.Time, batch record.Batch) error {
	producer := state.NoProducer
	if batch.Control() || batch.Transactional() {
		producer = batch.ProducerID()
	}
	switch {
	case producer == state.NoProducer:
	case s.transactional == nil:
		return nil
	case batch.Control():
		marker, ends, err := batch.Marker()
		if err != nil || !ends {
			return err
		}
		_, err = s.transactional.ReplayMarker(now,
			state.Marker{ProducerID: producer, Commit: marker.Type == record.ControlCommit})
		return err
	}
	return batch.Records(batchRecordsBytesMax, func(r *record.Record) error {
		stored := state.Stored{Record: state.Record{Key: r.Key, Value: r.Value}, Offset: r.Offset,
			ProducerID: producer}
		if _, err := s.replayRecord(now, stored); err != nil {
			return fmt.Errorf("replay record at offset %d: %w", r.Offset, err)
		}
		return nil
	})
}

func (s *Shard[S, K, A]) replayRecord(now time.Time, r state.Stored) ([]state.Answer[A], error) {
	if s.transactional != nil {
		return s.transactional.ReplayAt(now, r)
	}
	return s.machine.Replay(now, r.Key, r.Value)
}
