package report

import (
	"cmp"
	"slices"
)

// Transactions is the response of GET /api/v1/transactions: the transactional ids that this
// process's brokers coordinate, and the open transactions of the partitions that they lead.
type Transactions struct {
	// TransactionalIDs contains the transactional ids, sorted by id.
	TransactionalIDs []TransactionalID `json:"transactionalIds"`
	// Open contains the open transactions, sorted by topic, partition and first offset.
	Open []OpenTransaction `json:"open"`
	// TimeoutMaxSeconds is the longest transaction timeout that a producer can request.
	TimeoutMaxSeconds float64 `json:"timeoutMaxSeconds"`
	// Reporting contains the ids of this process's brokers.
	Reporting []int32 `json:"reporting"`
	// Brokers contains the brokers that are up.
	Brokers []BrokerHost `json:"brokers"`
}

// TransactionalID is a transactional id with its last transaction. Times are Unix seconds.
type TransactionalID struct {
	TransactionalID string `json:"transactionalId"`
	Coordinator     int32  `json:"coordinator"`
	// State is Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort.
	State          string  `json:"state"`
	ProducerID     int64   `json:"producerId"`
	Epoch          int16   `json:"epoch"`
	TimeoutSeconds float64 `json:"timeoutSeconds"`
	// Since is the time at which the last transaction began. It is absent if no transaction has begun.
	Since *float64 `json:"sinceTimestampSeconds,omitempty"`
	// Until is the time at which the coordinator aborts the transaction. It is present only in state
	// Ongoing.
	Until   *float64 `json:"untilTimestampSeconds,omitempty"`
	Changed float64  `json:"changedTimestampSeconds"` // time of the last change of State
	// Partitions contains the transaction's partitions in states Ongoing, PrepareCommit and
	// PrepareAbort. Unmarked is the number of partitions to which the outcome is not written yet.
	Partitions []TopicPartition `json:"partitions"`
	Unmarked   int              `json:"unmarked"`
}

// TopicPartition identifies a partition.
type TopicPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// OpenTransaction is a transaction that has records but no marker in a partition's log. The
// partition's leader reports it.
type OpenTransaction struct {
	Broker int32 `json:"broker"`
	TopicPartition
	Transaction
}

// Aborted is the response to a request that has aborted a transaction.
type Aborted struct {
	TransactionalID string           `json:"transactionalId,omitempty"`
	Partitions      []TopicPartition `json:"partitions,omitempty"`
}

// Sort sorts the lists in the documented order.
func (t *Transactions) Sort() {
	slices.SortFunc(t.TransactionalIDs, func(a, b TransactionalID) int {
		return cmp.Compare(a.TransactionalID, b.TransactionalID)
	})
	slices.SortFunc(t.Open, func(a, b OpenTransaction) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.FirstOffset, b.FirstOffset))
	})
}

// IsOpen reports whether the transaction has not yet ended in all of its partitions.
func (t *TransactionalID) IsOpen() bool { return slices.Contains(OpenStates, t.State) }

// OpenStates lists the values of TransactionalID.State that mean that a transaction has not yet
// ended in all of its partitions.
var OpenStates = []string{"Ongoing", "PrepareCommit", "PrepareAbort"}

// Owner returns the transactional id to whose transaction an open transaction belongs. It returns
// nil if none of these coordinators knows the id.
func (t *Transactions) Owner(open *OpenTransaction) *TransactionalID {
	for i := range t.TransactionalIDs {
		id := &t.TransactionalIDs[i]
		if id.ProducerID == open.ProducerID && id.IsOpen() &&
			slices.Contains(id.Partitions, open.TopicPartition) {
			return id
		}
	}
	return nil
}

// Identify sets the transactional id and the end of each row's oldest transaction if these
// coordinators know them.
func (t *Transactions) Identify(rows []Partition) {
	for i := range rows {
		oldest := rows[i].OldestTransaction
		if oldest == nil {
			continue
		}
		owner := t.Owner(&OpenTransaction{Transaction: *oldest, TopicPartition: TopicPartition{
			Topic: rows[i].Topic, Partition: rows[i].Partition}})
		if owner != nil {
			oldest.TransactionalID, oldest.Until = owner.TransactionalID, owner.Until
		}
	}
}
