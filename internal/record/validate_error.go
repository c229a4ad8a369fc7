package record

import "fmt"

// recordErrorsMax bounds how many records an answer names: a batch may hold millions.
const recordErrorsMax = 100

// RecordError says what is wrong with one record of a batch (KIP-467).
type RecordError struct {
	Index   int32 // in the batch, from 0
	Message string
}

// BatchError is Validate's error when it can name records; Unwrap gives one of the errors above.
type BatchError struct {
	Err     error
	Message string
	Records []RecordError // in their order, the first hundred at most
}

// Error returns the kind of error and the message for the batch as a whole.
func (e *BatchError) Error() string { return fmt.Sprintf("%s: %s", e.Err, e.Message) }

// Unwrap returns the kind of error: ErrInvalidRecord or ErrInvalidTimestamp.
func (e *BatchError) Unwrap() error { return e.Err }

// recordErrors gathers what is wrong with single records.
type recordErrors struct {
	first      []RecordError
	count      int
	timestamps bool // one of them is a timestamp: that wins over the others
}

// add notes one fault; beyond recordErrorsMax it is only counted.
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
		Message: fmt.Sprintf("%d records refused, the first is record %d: %s",
			e.count, e.first[0].Index, e.first[0].Message)}
}
