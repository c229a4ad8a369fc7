package replica

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
)

// These are answers of a transaction coordinator that refuse a transactional batch. Other answers
// are logstore.ErrInvalidProducerEpoch, if the producer was fenced, and ErrNotEnoughReplicas, if no
// coordinator can answer now and the producer must repeat the batch.
var (
	// ErrNotInTransaction means that the producer has no ongoing transaction that includes the
	// partition.
	ErrNotInTransaction = errors.New("the transaction does not include the partition")
	// ErrConcurrentTransactions means that the producer's previous transaction is not completed yet.
	ErrConcurrentTransactions = errors.New("the previous transaction is not completed yet")
	// ErrInvalidProducerIDMapping means that the transactional id is unknown, or has another producer
	// id.
	ErrInvalidProducerIDMapping = errors.New("the transactional id has another producer id")
)

// verifyTimeout limits how long a batch waits for the transaction coordinator's answer. A
// coordinator answers within a second even if it must first complete the previous transaction.
const verifyTimeout = 3 * time.Second

// verifyAttempts is the maximum number of times that a batch is verified. If the producer's
// previous transaction is not complete, the coordinator does not answer until it is. By then that
// transaction's marker has been written to this log, after the guard was taken, so the answer is
// outdated, although it concerns the next transaction. The set asks again at once. Otherwise the
// producer would send the batch again after its backoff (KAFKA-18575).
const verifyAttempts = 3

// Verifier asks transaction coordinators about transactions (KIP-890).
type Verifier interface {
	// Verify asks the coordinator of one transactional id. It returns one error for each element of
	// q.Partitions, in the same order. The error is nil if the producer's ongoing transaction includes
	// the partition, and otherwise one of the errors above.
	//
	// The answer may depend only on coordinator state that is below the coordinator's high watermark.
	// Calls run concurrently, and an implementation may combine the questions of several calls into
	// one request to a coordinator. Verify returns early if ctx ends.
	Verify(ctx context.Context, q Verification) []error
}

// Verification is a question to a transactional id's coordinator.
type Verification struct {
	TransactionalID string
	ProducerID      int64
	ProducerEpoch   int16
	// Add makes the coordinator add the partitions to the transaction, and begin a transaction if none
	// is ongoing (transaction version 2). Otherwise the coordinator only verifies that the transaction
	// includes the partitions.
	Add        bool
	Partitions []PartitionID
}

// Transaction identifies a produce request's transaction.
type Transaction struct {
	ID string // transactional id
	// Add is set if the first batch for a partition adds the partition to the transaction (transaction
	// version 2, Produce 12 and above). In earlier versions, the producer has added the partition
	// before.
	Add bool
}

// Transactional reports whether the set accepts transactional batches.
func (s *Set) Transactional() bool { return s.verifier != nil }

// AppendTransactional appends a transactional producer's batches, as Append does with acks=-1. For
// a transaction's first batch in a partition, the transaction coordinator must first confirm that
// the transaction includes the partition. Otherwise a batch that arrives after the end of its
// transaction would begin a transaction that never ends (KIP-890).
//
// Until AppendTransactional has returned, the caller must not append later batches of the producer,
// because they would arrive out of order.
func (s *Set) AppendTransactional(ctx context.Context, transaction Transaction,
	batches []ProducePartition) *PendingProduce {
	pending := &PendingProduce{set: s, results: make([]ProduceResult, len(batches))}
	left := make([]int, len(batches)) // indexes of the batches that are still to be appended
	for i := range left {
		left[i] = i
	}
	for range verifyAttempts {
		questions := s.questions(transaction, batches, left)
		s.ask(ctx, questions)
		outdated := left[:0]
		for _, i := range left {
			verified, err := questions.answerFor(i)
			pending.results[i] = ProduceResult{ID: batches[i].ID, Err: err}
			if err == nil {
				s.appendOne(AcksAll, batches[i], verified, pending, i)
			}
			if errors.Is(pending.results[i].Err, logstore.ErrVerificationOutdated) {
				outdated = append(outdated, i)
			}
		}
		if left = outdated; len(left) == 0 {
			break
		}
	}
	return pending
}

// question is a question to a coordinator, together with the batches that it concerns.
type question struct {
	Verification
	batches []int // indexes of the batches, one for each element of Partitions
	guards  []logstore.Guard
	errs    []error
}

// questions contains at most one question for each producer, and the errors of batches that are
// refused without a question.
type questions struct {
	all     []question
	refused map[int]error // errors by index of the batch
}

// questions returns the questions that must be answered before the batches with the given indexes
// may be appended. A batch that cannot be parsed needs no question, because the append refuses it.
func (s *Set) questions(transaction Transaction, batches []ProducePartition,
	which []int) questions {
	var q questions
	for _, i := range which {
		batch := batches[i]
		b, _, err := record.Next(batch.Batch)
		if err != nil || !b.Transactional() || b.Control() {
			continue
		}
		p, r, err := s.leader(batch.ID, -1)
		if err != nil {
			// Refuse the batch here. Otherwise, if this broker led again by the time of the append, the log
			// would reject the unverified batch with a fatal error.
			q.refuse(i, err)
			continue
		}
		needed, guard, err := p.log.NeedsVerification(b.ProducerID(), b.ProducerEpoch())
		switch {
		case errors.Is(err, logstore.ErrClosed) || errors.Is(err, logstore.ErrFollows):
			q.refuse(i, closedError(p, r))
		case err != nil:
			q.refuse(i, err)
		case needed:
			q.add(transaction, b, batch.ID, i, guard)
		}
	}
	return q
}

func (q *questions) refuse(batch int, err error) {
	if q.refused == nil {
		q.refused = map[int]error{}
	}
	q.refused[batch] = err
}

// add adds a partition to the question for the batch's producer.
func (q *questions) add(transaction Transaction, b record.Batch, id PartitionID, index int,
	guard logstore.Guard) {
	place := -1
	for i := range q.all {
		if q.all[i].ProducerID == b.ProducerID() && q.all[i].ProducerEpoch == b.ProducerEpoch() {
			place = i
		}
	}
	if place < 0 {
		place = len(q.all)
		q.all = append(q.all, question{Verification: Verification{TransactionalID: transaction.ID,
			ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), Add: transaction.Add}})
	}
	one := &q.all[place]
	one.Partitions = append(one.Partitions, id)
	one.batches = append(one.batches, index)
	one.guards = append(one.guards, guard)
}

// ask asks all questions, one after the other, because a request normally has only one producer.
func (s *Set) ask(ctx context.Context, q questions) {
	if len(q.all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	for i := range q.all {
		began := time.Now()
		q.all[i].errs = s.verifier.Verify(ctx, q.all[i].Verification)
		s.metrics.verified(q.all[i].errs, time.Since(began))
	}
}

// answerFor returns the result of the coordinator's verification for the batch with the given
// index, or the error with which the batch is refused.
func (q *questions) answerFor(index int) (logstore.Verified, error) {
	for _, one := range q.all {
		for i, batch := range one.batches {
			if batch != index {
				continue
			}
			return logstore.Verified{Transaction: true, EpochBump: one.Add, Guard: one.guards[i]},
				one.errs[i]
		}
	}
	return logstore.Verified{}, q.refused[index]
}
