package record

import "fmt"

// recordErrorsMax is the maximum number of records listed in an error response. A batch may contain
// millions of records.
const recordErrorsMax = 100

// RecordError describes the problem with one record of a batch (KIP-467).
type RecordError struct {
	Index   int32 // position of the record in the batch, from 0
	Message string
}

// BatchError is the error that Validate returns if single records are invalid. Unwrap returns
// ErrInvalidRecord or ErrInvalidTimestamp.
type BatchError struct {
	Err     error
	Message string
	Records []RecordError // problems in batch order, at most recordErrorsMax
}

// Error returns the kind of error and the message for the whole batch.
func (e *BatchError) Error() string { return fmt.Sprintf("%s: %s", e.Err, e.Message) }

// Unwrap returns the kind of error: ErrInvalidRecord or ErrInvalidTimestamp.
func (e *BatchError) Unwrap() error { return e.Err }

// recordErrors collects the problems of single records.
type recordErrors struct {
	first []RecordError
	count int
	// timestamps is true if a problem concerns a timestamp, so that the error is ErrInvalidTimestamp.
	timestamps bool
}

// add counts one problem, and stores it unless recordErrorsMax problems are already stored.
func (e *recordErrors) add(index int32, message string) {
	e.count++
	if len(e.first) < recordErrorsMax {
		e.first = append(e.first, RecordError{Index: index, Message: message})
	}
}

// err returns a *BatchError, or nil if nothing was added.
func (e *recordErrors) err() error {
	if e.count == 0 {
		return nil
	}
	kind := ErrInvalidRecord
	if e.timestamps {
		kind = ErrInvalidTimestamp
	}
	return &BatchError{Err: kind, Records: e.first,
		Message: fmt.Sprintf("%d records rejected, the first is record %d: %s",
			e.count, e.first[0].Index, e.first[0].Message)}
}
