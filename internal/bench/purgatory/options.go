package purgatory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options of one run.
type Options struct {
	Kind     string        // what is measured, one of Kinds
	Requests int           // how many
	Rate     int           // requests a second on average; 0: as fast as possible
	Timeout  time.Duration // of each request
	Median   time.Duration // half of the requests would take longer
	Quartile time.Duration // a quarter of them would take longer
	Size     int           // bytes that each request carries
	Keys     int           // that each request watches
	OfKeys   int           // that there are
	Seed     uint64        // of all that is drawn
}

// Limits of the options: what fits in memory, and in the calendar.
const (
	requestsMax = 1_000_000_000
	rateMax     = 100_000_000
	timeoutMax  = time.Minute
	sizeMax     = 1 << 20
	ofKeysMax   = 1_000_000
)

// Validate tells all that is wrong with the options at once, in the words of the command line.
func (o Options) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(slices.Contains(Kinds(), o.Kind), "invalid argument %q for --kind: give one of %s",
		o.Kind, strings.Join(Kinds(), ", "))
	check(o.Requests >= 1 && o.Requests <= requestsMax,
		"invalid argument %d for --requests: give 1 to %d", o.Requests, requestsMax)
	check(o.Rate >= 0 && o.Rate <= rateMax,
		"invalid argument %d for --rate: give 0 (as fast as possible) to %d", o.Rate, rateMax)
	check(o.Timeout >= time.Millisecond && o.Timeout <= timeoutMax,
		"invalid argument %v for --timeout: give 1ms to %v", o.Timeout, timeoutMax)
	check(o.Median > 0, "invalid argument %v for --pct50: give more than 0", o.Median)
	check(o.Quartile > o.Median && o.Quartile <= time.Hour,
		"invalid argument %v for --pct75: give more than --pct50, at most 1h", o.Quartile)
	check(o.Size >= 0 && o.Size <= sizeMax, "invalid argument %d for --size: give 0 to %d", o.Size,
		sizeMax)
	check(o.OfKeys >= 1 && o.OfKeys <= ofKeysMax, "invalid argument %d for --of-keys: give 1 to %d",
		o.OfKeys, ofKeysMax)
	check(o.Keys >= 1 && o.Keys <= o.OfKeys, "invalid argument %d for --keys: give 1 to --of-keys",
		o.Keys)
	return errors.Join(faults...)
}
