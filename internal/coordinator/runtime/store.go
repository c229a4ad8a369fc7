package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/coordinator/state"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
)

const (
	// StoreTimeout limits how long a request waits for the in-sync replicas to copy its records
	// (Kafka's offsets.commit.timeout.ms).
	StoreTimeout = 5 * time.Second
	// batchBytes is the maximum size of a batch with several records. A batch with a single record may
	// be larger. If the topic's limit for the size of a batch is smaller, that limit applies.
	batchBytes = 512 << 10
	// recordOverheadBytes is an upper bound on the size of an encoded record without its key and
	// value.
	recordOverheadBytes = 32
)

// apply processes an output of the machine: it appends and replays the records, and sends the
// answers. If it fails, it has stored none of the records, or only the first ones. The state then
// still agrees with the log, or apply has marked it inconsistent.
func (s *Shard[S, K, A]) apply(now time.Time, out state.Output[A]) error {
	_, err := s.store(now, out, noTransaction)
	return err
}

// store is like apply, but also returns the number of records that it has stored. The records
// belong to the producer's transaction, or to none.
func (s *Shard[S, K, A]) store(now time.Time, out state.Output[A], producer Producer) (stored int,
	err error) {
	answers := out.Answers
	for records := out.Records; len(records) > 0; {
		n, last, err := s.append(now, records, producer)
		if err != nil {
			s.inconsistent = s.inconsistent || out.VolatileChanged
			err = storeError(err)
			for _, a := range answers {
				a.Err = err
				s.answer(a)
			}
			return stored, err
		}
		stored += n
		for i, r := range records[:n] {
			more, err := s.replayRecord(now, state.Stored{Record: r, ProducerID: producer.ID,
				Offset: last - int64(n-1-i)})
			if err != nil { // later coordinators cannot replay the record either
				s.logger.Error("failed to replay an appended coordinator record", "error", err)
				s.inconsistent = true
			}
			answers = append(answers, more...)
		}
		records = records[n:]
	}
	for _, a := range answers {
		s.answer(a)
	}
	return stored, nil
}

func (s *Shard[S, K, A]) answer(a state.Answer[A]) {
	if a.To == state.Effect {
		if a.Err == nil {
			s.effects.add(a.Result, s.last)
		}
		return
	}
	if to := s.waiting[a.To]; to != nil {
		delete(s.waiting, a.To)
		// This does not block, because the channel has a buffer of 1, and each token is answered only
		// once.
		to <- answered[A]{a, s.last}
	}
}

// append appends one batch with as many of the records as fit. It returns their number and the last
// record's offset.
func (s *Shard[S, K, A]) append(now time.Time, records []state.Record, producer Producer) (n int,
	last int64, err error) {
	batch, n, err := s.build(now, records, producer)
	if err != nil {
		return 0, -1, err
	}
	last, err = s.runtime.opts.Replicas.AppendVerifiedIn(s.epoch,
		replica.ProducePartition{ID: s.id, Topic: s.topic, Batch: batch}, producer.Verified)
	s.last = max(s.last, last)
	if err != nil {
		return 0, -1, err
	}
	s.runtime.opts.Appends.Inc()
	return n, last, nil
}

func (s *Shard[S, K, A]) build(now time.Time, records []state.Record,
	producer Producer) (batch []byte,
	n int, err error) {
	size, limit := record.HeaderBytes, batchBytes
	if most := s.runtime.view.Load().batchBytesMax; most > 0 {
		limit = min(limit, most)
	}
	for n < len(records) && (n == 0 || size+len(records[n].Key)+len(records[n].Value)+
		recordOverheadBytes <= limit) {
		size += len(records[n].Key) + len(records[n].Value) + recordOverheadBytes
		n++
	}
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	builder.Reset(producer.identity(n))
	for i, r := range records[:n] {
		builder.Add(&record.Record{Offset: int64(i), Timestamp: now.UnixMilli(), Key: r.Key,
			Value: r.Value})
	}
	batch, err = builder.Build(nil)
	return batch, n, err
}

// awaitStored waits until the record at offset last is below the high watermark.
func (s *Shard[S, K, A]) awaitStored(ctx context.Context, last int64) error {
	if err := s.runtime.opts.Replicas.Await(ctx, s.id, s.epoch, last, StoreTimeout); err != nil {
		return storeError(err)
	}
	return nil
}

// storeError wraps a partition's error in a coordinator error that clients understand.
func storeError(err error) error {
	switch {
	case errors.Is(err, replica.ErrNotLeader),
		errors.Is(err, replica.ErrFencedLeaderEpoch),
		errors.Is(err, logstore.ErrStorage),
		errors.Is(err, logstore.ErrClosed),
		errors.Is(err, replica.ErrUnknownLeaderEpoch):
		return fmt.Errorf("%w: %w", ErrNotCoordinator, err)
	case errors.Is(err, logstore.ErrInvalidProducerEpoch),
		errors.Is(err, logstore.ErrInvalidTxnState):
		return err // an error caused by the producer
	case errors.Is(err, record.ErrMessageTooLarge), errors.Is(err, logstore.ErrBatchTooLarge):
		return fmt.Errorf("%w: %w", state.ErrRecordTooLarge, err)
	default:
		return fmt.Errorf("%w: %w", ErrNotAvailable, err)
	}
}
