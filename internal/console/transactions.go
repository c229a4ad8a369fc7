package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/remote"
)

// transactionsMax is the maximum number of rows in each table on the page Transactions.
const transactionsMax = 500

// transactionList is the page Transactions.
type transactionList struct {
	Open []openRow
	IDs  []idRow
	More int // number of transactional ids that are not shown
	Sort sorting
	// Missing lists the brokers whose transactions are missing; "": none.
	Missing string
}

// openRow is an open transaction in one partition.
type openRow struct {
	report.OpenTransaction
	Began instant
	Owner string // transactional id; "" if unknown
	Abort string // relative URL of the form that aborts it; "" if the coordinator will end it
}

// idRow is a transactional id.
type idRow struct {
	report.TransactionalID
	ID                  string
	Began, Ends, Change instant
	Timeout             time.Duration
}

var idColumns = []column[idRow]{
	{"id", func(a, b *idRow) int { return cmp.Compare(a.ID, b.ID) }},
	{"state", func(a, b *idRow) int { return cmp.Compare(a.State, b.State) }},
	{"began", func(a, b *idRow) int { return a.Began.Compare(b.Began.Time) }},
	{"coordinator", func(a, b *idRow) int { return cmp.Compare(a.Coordinator, b.Coordinator) }},
}

func idRowOf(transactionalID report.TransactionalID) idRow {
	return idRow{transactionalID, transactionalID.TransactionalID, at(transactionalID.Since),
		at(transactionalID.Until), at(&transactionalID.Changed),
		seconds(transactionalID.TimeoutSeconds)}
}

// transactions returns the page that lists transactions; hanging ones come first.
func (c *Console) transactions(r *http.Request) (view, error) {
	all, unanswered, err := c.askTransactions(r)
	if err != nil {
		return view{}, err
	}
	page := transactionList{Open: openRows(all)}
	if err := all.Complete(); err != nil {
		page.Missing = err.Error()
	}
	for _, id := range all.TransactionalIDs {
		page.IDs = append(page.IDs, idRowOf(id))
	}
	page.Sort = sorted("transactions", r.URL.Query(), page.IDs, idColumns)
	if page.More = len(page.IDs) - transactionsMax; page.More > 0 {
		page.IDs = page.IDs[:transactionsMax]
	}
	return view{Template: "transactions", Title: "Transactions", Unanswered: unanswered,
		Brokers: len(all.Brokers), Body: page}, nil
}

// askTransactions requests the transactions from the brokers. It fails if no broker responds.
func (c *Console) askTransactions(r *http.Request) (*remote.Transactions, []remote.Unanswered,
	error) {
	all, unanswered := c.opts.Fleet.Transactions(r.Context())
	if len(all.Reporting) == 0 && len(unanswered) > 0 {
		return nil, nil, &fault{status: http.StatusBadGateway, text: "No broker responds.",
			cause: unanswered[0].Err}
	}
	return all, unanswered, nil
}

func openRows(all *remote.Transactions) (rows []openRow) {
	for i := range all.Open {
		transaction := &all.Open[i]
		row := openRow{OpenTransaction: *transaction, Began: at(&transaction.Since),
			Owner: transaction.TransactionalID}
		if owner := all.Owner(transaction); owner != nil {
			row.Owner = owner.TransactionalID
		}
		switch {
		case transaction.Hanging:
			row.Abort = query("abort", "topic", transaction.Topic, "partition", transaction.Partition,
				"offset",
				transaction.FirstOffset)
		case row.Owner != "":
			row.Abort = query("abort", "id", row.Owner)
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b openRow) int {
		return order(a.Hanging) - order(b.Hanging)
	})
	return rows[:min(len(rows), transactionsMax)]
}

// transaction returns the page of one transactional id.
func (c *Console) transaction(r *http.Request) (view, error) {
	all, unanswered, err := c.askTransactions(r)
	if err != nil {
		return view{}, err
	}
	id := r.URL.Query().Get("id")
	found, err := all.Find(id)
	if err != nil {
		return view{}, &fault{status: http.StatusNotFound,
			text: "There is no transactional id " + id + coordinatorMissing(len(unanswered))}
	}
	return view{Template: "transaction", Title: id, Page: "transactions", Unanswered: unanswered,
		Refusal: c.refusalOf(r, Abort), Body: idRowOf(*found)}, nil
}

// coordinatorMissing returns the end of a sentence about an unknown transactional id.
func coordinatorMissing(unanswered int) string {
	if unanswered == 0 {
		return "."
	}
	return ", or it is that of a broker that did not respond."
}

// abortPage is the form that aborts a transactional id's transaction, or a hanging transaction in
// one partition.
type abortPage struct{ What, ID, Topic, Partition, Offset string }

func abortForm(r *http.Request) (view, error) {
	q := valuesOf(r)
	page := abortPage{ID: q.Get("id"), Topic: q.Get("topic"), Partition: q.Get("partition"),
		Offset: q.Get("offset")}
	if page.What = "the transaction of " + page.ID; page.ID == "" {
		if _, err := placeOf(q); err != nil {
			return view{}, err
		}
		page.What = "the hanging transaction at offset " + page.Offset + " of " + page.Topic + "-" +
			page.Partition
	}
	return view{Template: "abort", Title: "Abort " + page.What, Page: "transactions",
		Body: page}, nil
}

// abort aborts the transaction in the form. It redirects to the transaction's page or, if the form
// has no transactional id, to the list.
func (c *Console) abort(r *http.Request) (location string, err error) {
	if id := r.PostForm.Get("id"); id != "" {
		_, err = c.opts.Fleet.AbortTransaction(r.Context(), id)
		return query("transaction", "id", id), abortFault(err)
	}
	return "transactions", c.abortHanging(r, r.PostForm)
}

// abortHanging aborts a transaction in one partition if the leader reports that it hangs.
func (c *Console) abortHanging(r *http.Request, q url.Values) error {
	wanted, err := placeOf(q)
	if err != nil {
		return err
	}
	target := report.TopicPartition{Topic: wanted.topic, Partition: wanted.partition}
	all, _ := c.opts.Fleet.Transactions(r.Context())
	hangs := slices.ContainsFunc(all.Open, func(o report.OpenTransaction) bool {
		return o.TopicPartition == target && o.FirstOffset == wanted.offset && o.Hanging
	})
	if !hangs {
		return &fault{status: http.StatusConflict, text: "No hanging transaction begins at offset " +
			strconv.FormatInt(wanted.offset, 10) + " of " + target.Topic + "-" + q.Get("partition") +
			"; it has ended, or its coordinator will end it."}
	}
	_, err = c.opts.Fleet.AbortHanging(r.Context(), target, wanted.offset)
	return abortFault(err)
}

// abortFault returns the error for a failed request to abort. If a broker has refused the request,
// the error has the status of the broker's response.
func abortFault(err error) error {
	var refused *remote.Refused
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return &fault{status: refused.Status, text: "The broker refuses to abort the transaction.",
			cause: err}
	case errors.Is(err, remote.ErrUnknownTransactionalID), errors.Is(err, remote.ErrOwned),
		errors.Is(err, remote.ErrUnknownTransaction):
		return &fault{status: http.StatusConflict, text: "The transaction cannot be aborted.",
			cause: err}
	}
	return err
}
