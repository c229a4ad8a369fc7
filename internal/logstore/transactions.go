package logstore

import (
	"fmt"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/record"
)

// Verified is an argument of AppendVerified; see package producer.
type Verified = producer.Verified

// Guard is a verification guard, which is a field of Verified; see package producer.
type Guard = producer.Guard

// EndTxn is an argument of AppendControl; see package producer.
type EndTxn = producer.EndTxn

// Transaction is an open transaction; see package producer.
type Transaction = producer.Transaction

// ProducerInfo is the state of one producer; see package producer.
type ProducerInfo = producer.Info

// NeedsVerification reports whether a transactional batch must be verified with the transaction
// coordinator before it is appended: this is necessary if the log contains no open transaction of
// the producer in its epoch. After this call, the caller asks the coordinator, and passes the
// verification guard to AppendVerified.
//
// NeedsVerification fails with ErrInvalidProducerEpoch if the log contains a later epoch of the
// producer, regardless of the coordinator's answer (KAFKA-19690). It fails with ErrFollows if this
// replica is a follower.
func (l *Log) NeedsVerification(producerID int64, producerEpoch int16) (needed bool, guard Guard,
	err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.fault.StoppedLocked() != nil:
		return false, Guard{}, l.fault.StoppedLocked()
	case l.mu.follows:
		return false, Guard{}, ErrFollows
	}
	if err := l.mu.producers.CheckEpoch(producerID, producerEpoch); err != nil {
		return false, Guard{}, err
	}
	return !l.mu.producers.HasOpen(producerID, producerEpoch),
		l.mu.producers.Guard(producerID, l.epochs.Latest()), nil
}

// Producers is the state of a log's producers, as of the log end.
type Producers struct {
	mu    sync.Locker // Log.mu
	state *producer.State
}

// Producers returns the state of the log's producers.
func (l *Log) Producers() Producers { return Producers{&l.mu.Mutex, &l.mu.producers} }

// All returns all known producers in ascending order of their ids (DescribeProducers, KIP-664).
func (p Producers) All() []ProducerInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Producers()
}

// Transactions returns all open transactions in ascending order of their first offsets.
func (p Producers) Transactions() []Transaction {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Transactions()
}

// HasOpenTransaction reports whether a producer has an open transaction with the given producer
// epoch in this log.
func (p Producers) HasOpenTransaction(producerID int64, producerEpoch int16) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.HasOpen(producerID, producerEpoch)
}

// expire removes idle producers. It visits every producer of the log under Log.mu, so each round of
// retention calls it, but an append does not.
func (p Producers) expire(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Expire(now)
}

// OpenTransactions returns the number of open transactions, and the open transaction with the
// lowest first offset.
func (l *Log) OpenTransactions() (count int, oldest Transaction) {
	return l.offsets.Open()
}

// AppendControl appends the marker that ends a producer's transaction. It also appends the marker
// if no transaction of the producer is open in this log, because the coordinator cannot know
// whether the log received any record of the transaction. The coordinator repeats a marker until it
// is acknowledged.
//
// A marker of transaction version 2 or higher that the log already contains is not written again.
// Then the result has Duplicate set, and its offsets are the offsets of the log's last record: once
// that record is replicated, the marker is replicated too.
//
// AppendControl fails with ErrInvalidProducerEpoch or ErrCoordinatorFenced for an outdated marker.
// It also fails with the errors of Append.
func (l *Log) AppendControl(end EndTxn, now time.Time) (Appended, error) {
	config := l.config.Load()
	marker := record.Control{Type: record.ControlAbort, CoordinatorEpoch: end.CoordinatorEpoch}
	if end.Commit {
		marker.Type = record.ControlCommit
	}
	id := record.Identity{ProducerID: end.ProducerID, ProducerEpoch: end.ProducerEpoch,
		TimestampType: config.settings.TimestampType}
	if end.ProducerID < 0 || end.ProducerEpoch < 0 {
		return Appended{}, fmt.Errorf("%w: producer %d, epoch %d", record.ErrInvalidRecord,
			end.ProducerID, end.ProducerEpoch)
	}
	content, err := record.AppendMarker(nil, id, now.UnixMilli(), marker)
	if err != nil {
		return Appended{}, err
	}
	b, repeated := record.Batch(content), false
	err = l.appending(now, func() error {
		if l.mu.follows {
			return ErrFollows
		}
		var err error
		if repeated, err = l.mu.producers.CheckMarker(end); err != nil {
			return err
		}
		if repeated {
			b.SetBaseOffset(l.offsets.LogEnd() - 1)
			return nil
		}
		if err := l.writeLocked(record.Whole(b), config, now); err != nil {
			return err
		}
		if salt := l.compaction.Sidecars.Salt.Load(); salt != nil && config.settings.Compact {
			l.compaction.Sidecars.Spools.AppendMarkerLocked(l.list.Load().Active(), *salt, b)
		}
		return nil
	})
	if err != nil {
		return Appended{}, err
	}
	if !repeated {
		l.disk.AddUnsynced(len(b))
	}
	l.appended(config)
	return Appended{BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(),
		LogAppendTime: appendTime(&config.settings, b.MaxTimestamp()), LogStart: l.LogStart(),
		Duplicate: repeated}, nil
}

// LastStable returns the last stable offset, below which read_committed consumers may read. This is
// the high watermark, or the first offset of the first transaction that is open or whose marker is
// not below the high watermark. It is at least the log start, even if DeleteBefore has deleted the
// beginning of an open transaction. LastStable acquires only a mutex that is never held during I/O.
func (l *Log) LastStable() int64 { return l.offsets.LastStable() }
