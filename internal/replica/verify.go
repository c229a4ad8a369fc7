package replica

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
)

// Answers of a transaction coordinator that refuse a transactional batch. Other answers are
// logstore.ErrInvalidProducerEpoch, if the producer was fenced, and ErrNotEnoughReplicas, if the
// producer must repeat the batch because no coordinator can answer now.
var (
	// ErrNotInTransaction: the producer has no ongoing transaction that includes the partition.
	ErrNotInTransaction = errors.New("the transaction does not include the partition")
	// ErrConcurrentTransactions: the producer's previous transaction is not completed yet.
	ErrConcurrentTransactions = errors.New("the previous transaction is not completed yet")
	// ErrInvalidProducerIDMapping: the transactional id is unknown, or has another producer id.
	ErrInvalidProducerIDMapping = errors.New("the transactional id has another producer id")
)

// verifyTimeout limits how long a batch waits for the answer of the transaction coordinator. A
// coordinator answers within a second even if it must complete the previous transaction first.
const verifyTimeout = 3 * time.Second

// verifyAttempts is how often a batch is verified. If the producer's previous transaction is not
// complete, the coordinator answers only once it is. By then the marker of that transaction has
// been written to this log after the guard was taken, so the answer is outdated, although it
// concerns the next transaction. The set repeats the question at once; otherwise the producer would
// repeat it after its backoff (KAFKA-18575).
const verifyAttempts = 3

// Verifier asks transaction coordinators about transactions (KIP-890).
type Verifier interface {
	// Verify asks the coordinator of one transactional id. It returns one error for each of
	// q.Partitions, in their order: nil if the ongoing transaction of the producer includes the
	// partition, otherwise one of the errors above.
	//
	// The answer may depend only on state of the coordinator that is below its high watermark.
	// Calls run concurrently, and an implementation may send the questions of several calls to one
	// coordinator together. Verify returns early if ctx ends.
	Verify(ctx context.Context, q Verification) []error
}

// Verification is a question to the coordinator of a transactional id.
type Verification struct {
	TransactionalID string
	ProducerID      int64
	ProducerEpoch   int16
	// Add makes the coordinator add the partitions to the transaction, and begin the transaction if
	// none is ongoing (transaction version 2). Otherwise the coordinator only verifies that the
	// transaction includes them.
	Add        bool
	Partitions []PartitionID
}

// Transaction identifies the transaction of a produce request.
type Transaction struct {
	ID string // transactional id
	// Add: the first batch for a partition adds the partition to the transaction (transaction
	// version 2, Produce 12 and above). Below, the producer has added it before.
	Add bool
}

// Transactional reports whether the set accepts transactional batches.
func (s *Set) Transactional() bool { return s.verifier != nil }

// AppendTransactional appends the batches of a transactional producer, as Append does with acks -1.
// If the first batch of a transaction in a partition is among them, the transaction coordinator
// must first confirm that the transaction includes the partition: otherwise a batch that arrives
// after the end of its transaction would begin a transaction that never ends (KIP-890).
//
// The caller must not append later batches of the producer before AppendTransactional has returned,
// or they would arrive out of order.
func (s *Set) AppendTransactional(ctx context.Context, transaction Transaction,
	batches []ProducePartition) *PendingProduce {
	pending := &PendingProduce{set: s, results: make([]ProduceResult, len(batches))}
	left := make([]int, len(batches)) // indexes of the batches to append
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

// question is a question to a coordinator, and the batches that it concerns.
type question struct {
	Verification
	batches []int // for each of Partitions, the index of its batch
	guards  []logstore.Guard
	errs    []error
}

// questions holds at most one question for each producer, and the errors of batches that are
// refused without a question.
type questions struct {
	all     []question
	refused map[int]error // by index of the batch
}

// questions returns the questions that must be asked before the batches with the given indexes may
// be appended. A batch that cannot be parsed needs none, because the append refuses it.
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
			// Without this refusal the log would reject the unverified batch with a fatal error, even if
			// this broker leads again by then.
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

// add adds a partition to the question about the batch's producer.
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

// ask asks all questions, one after the other: a request normally has one producer.
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

// answerFor returns what the coordinator has verified for the batch with an index, or the error
// with which the batch is refused.
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
