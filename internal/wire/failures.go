package wire

import (
	"maps"
	"net/netip"
	"sync"
	"time"
)

const (
	// failuresMax is the number of failed authentications from one address in failureWindow. After
	// more, connections from the address are refused for failureBlock.
	failuresMax   = 10
	failureWindow = time.Minute
	failureBlock  = 30 * time.Second
	// failureAddressesMax bounds the memory for failures. If there are more addresses, failures of
	// further ones are not counted until entries have expired.
	failureAddressesMax = 10_000
)

// failures counts failed authentications by address. Addresses are blocked and users are not:
// otherwise an attacker could lock a user out by its name.
type failures struct {
	mu        sync.Mutex
	byAddress map[netip.Addr]failureCount
}

// failureCount are the failures of an address since begin.
type failureCount struct {
	begin        time.Time
	count        int
	blockedUntil time.Time
}

func (f failureCount) expired(now time.Time) bool {
	return now.Sub(f.begin) >= failureWindow && !now.Before(f.blockedUntil)
}

// add counts a failure. The result logs is true for the first failures of an address in a window:
// further ones would only fill the log.
func (f *failures) add(address netip.Addr, now time.Time) (logs bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of, known := f.byAddress[address]
	if !known && len(f.byAddress) >= failureAddressesMax {
		maps.DeleteFunc(f.byAddress, func(_ netip.Addr, c failureCount) bool {
			return c.expired(now)
		})
		if len(f.byAddress) >= failureAddressesMax {
			return false
		}
	}
	if now.Sub(of.begin) >= failureWindow {
		of = failureCount{begin: now, blockedUntil: of.blockedUntil}
	}
	if of.count++; of.count > failuresMax {
		of.blockedUntil = now.Add(failureBlock)
	}
	if f.byAddress == nil {
		f.byAddress = map[netip.Addr]failureCount{}
	}
	f.byAddress[address] = of
	return of.count <= failuresMax+1
}

// blocked reports whether connections from an address are refused now.
func (f *failures) blocked(address netip.Addr, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return now.Before(f.byAddress[address].blockedUntil)
}
