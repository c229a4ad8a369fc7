package purgatory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Options configures a run.
type Options struct {
	Kind     string        // subject of the measurement, one of Kinds
	Requests int           // number of requests
	Rate     int           // requests per second on average; 0: as fast as possible
	Timeout  time.Duration // timeout of each request
	Median   time.Duration // median of the time from arrival to completion
	Quartile time.Duration // 75th percentile of the time from arrival to completion
	Size     int           // bytes that each request carries
	Keys     int           // keys that each request watches
	OfKeys   int           // number of keys from which the keys of a request are chosen
	Seed     uint64        // seed of the random times and keys
	// Done is the number of requests that were sent, to display the progress. It is updated about
	// every thousand requests; nil: it is not set.
	Done *atomic.Int64
}

// Limits of the options. They bound the memory of a run and the size of the schedule.
const (
	requestsMax = 1_000_000_000
	rateMax     = 100_000_000
	timeoutMax  = time.Minute
	sizeMax     = 1 << 20
	ofKeysMax   = 1_000_000
)

// Validate returns an error that contains all faults in the options. It names the command line
// flags.
func (o Options) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	if slices.Contains(removedKinds, o.Kind) {
		check(false, "invalid argument %q for --kind: this kind was removed, and "+
			"docs/internals/bench/purgatory.md keeps its figures; give one of %s",
			o.Kind, strings.Join(Kinds(), ", "))
	} else {
		check(slices.Contains(Kinds(), o.Kind), "invalid argument %q for --kind: give one of %s",
			o.Kind, strings.Join(Kinds(), ", "))
	}
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
