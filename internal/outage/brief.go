package outage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// faultsShown is the maximum number of joined errors in one log line.
const faultsShown = 5

// Brief returns the text of an error. It contains a limited number of joined errors, because an
// error can concern a thousand partitions. The text does not depend on the order of the joined
// errors, so equal failures have equal texts.
func Brief(err error) string {
	var words []string
	for _, fault := range Joined(err) {
		words = append(words, fault.Error())
	}
	slices.Sort(words)
	if words = slices.Compact(words); len(words) > faultsShown {
		words = append(words[:faultsShown], fmt.Sprintf("and %d more", len(words)-faultsShown))
	}
	return strings.Join(words, "\n")
}

// Joined returns the errors that errors.Join has combined, recursively. It does not split an error
// whose text contains more than its parts' texts.
func Joined(err error) (faults []error) {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(several.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	for _, one := range several.Unwrap() {
		faults = append(faults, Joined(one)...)
	}
	return faults
}
