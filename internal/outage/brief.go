package outage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// faultsShown is the maximum number of joined errors in one log line.
const faultsShown = 5

// Brief returns a text for an error. It contains a limited number of joined errors, because an
// error may concern a thousand partitions. The text does not depend on their order, so that equal
// failures have equal texts.
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

// Joined returns the errors that errors.Join combined, recursively. It does not split an error
// whose text contains more than the texts of its parts.
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
