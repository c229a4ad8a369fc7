package wire

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// failuresMax is the default of Security.FailuresMax.
	failuresMax   = 10
	failureWindow = time.Minute
	failureBlock  = 30 * time.Second
	// unnamedFactor times Security.FailuresMax is the number of failures without a user name after
	// which an address is refused. It is higher than the limit for a user, because all clients at the
	// address are then refused.
	unnamedFactor = 10
	// failureAddressesMax limits the number of addresses with failures, and so the memory. Failures
	// from other addresses are not counted until entries have expired.
	failureAddressesMax = 10_000
	// failureNamesMax limits the number of user names at all addresses, and addressNamesMax the number
	// at one address. Additional names at an address share one count, so that a client cannot evade
	// the limit with different names.
	failureNamesMax = 10_000
	addressNamesMax = 100
	// A client with at least failingMin failures within failureWindow counts as failing, for the time
	// failingFor. Fewer failures may be mistyped passwords.
	failingMin = 3
	failingFor = 2 * failureWindow
)

// failures counts failed authentications per address and user name. A name is blocked only at the
// address of the failures: if it were blocked at every address, an attacker who knows the name
// could lock out the user. Other names at the address are not blocked, because many clients can
// share an address, such as the address of a Kubernetes node. Names are counted whether or not the
// user exists, because a block would otherwise reveal that the user exists.
type failures struct {
	mu        sync.Mutex
	byAddress map[netip.Addr]*addressFailures
	names     int       // total number of names at all addresses
	purged    time.Time // time at which expired entries were last removed
}

// addressFailures contains the failures from one address.
type addressFailures struct {
	unnamed failureCount             // without a name, such as an invalid certificate or token
	shared  failureCount             // failures of the names that do not fit into byName
	byName  map[string]*failureCount // failures by the beginning of the name (logged)
}

// failureCount counts the failures since begin.
type failureCount struct {
	begin        time.Time
	count        int
	blockedUntil time.Time
	failingUntil time.Time
	known        bool // true if the last failure was that of an existing user
}

func (f *failureCount) expired(now time.Time) bool {
	return now.Sub(f.begin) >= failureWindow && !f.blocked(now) && !now.Before(f.failingUntil)
}

func (f *failureCount) blocked(now time.Time) bool { return now.Before(f.blockedUntil) }

// add counts a failure. If there are more than limit failures in a window, the client is blocked.
func (f *failureCount) add(known bool, limit int, now time.Time) {
	if now.Sub(f.begin) >= failureWindow {
		f.begin, f.count = now, 0
	}
	f.known = known
	f.count++
	if f.count > limit {
		f.blockedUntil = now.Add(failureBlock)
	}
	if f.count >= failingMin || f.count > limit {
		f.failingUntil = now.Add(failingFor)
	}
}

// add counts a failure. name is "" if the client has not sent a name; known is true if a user with
// this name exists. logs is true only for the first failures in a window, so that repeated failures
// do not fill the log.
func (f *failures) add(address netip.Addr, name string, known bool, limit int,
	now time.Time) (logs bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.byAddress) >= failureAddressesMax || f.names >= failureNamesMax {
		f.purge(now)
	}
	failing := f.of(address)
	if failing == nil {
		return false
	}
	count := &failing.unnamed
	if name == "" {
		limit *= unnamedFactor
	} else {
		count = f.named(failing, logged(name), now)
		known = known && count != &failing.shared
	}
	count.add(known, limit, now)
	return count.count <= min(limit, failuresMax)+1
}

// of returns the failures from an address, or nil if there are too many addresses.
func (f *failures) of(address netip.Addr) *addressFailures {
	if failing := f.byAddress[address]; failing != nil {
		return failing
	}
	if len(f.byAddress) >= failureAddressesMax {
		return nil
	}
	if f.byAddress == nil {
		f.byAddress = map[netip.Addr]*addressFailures{}
	}
	failing := &addressFailures{}
	f.byAddress[address] = failing
	return failing
}

// named returns the count for a name at an address.
func (f *failures) named(failing *addressFailures, name string, now time.Time) *failureCount {
	if count := failing.byName[name]; count != nil {
		return count
	}
	if len(failing.byName) >= addressNamesMax {
		f.names -= failing.purge(now)
	}
	if len(failing.byName) >= addressNamesMax || f.names >= failureNamesMax {
		return &failing.shared
	}
	if failing.byName == nil {
		failing.byName = map[string]*failureCount{}
	}
	count := &failureCount{}
	failing.byName[name] = count
	f.names++
	return count
}

// purge removes the expired names and returns their number.
func (a *addressFailures) purge(now time.Time) int {
	before := len(a.byName)
	maps.DeleteFunc(a.byName, func(_ string, c *failureCount) bool { return c.expired(now) })
	return before - len(a.byName)
}

// purge removes the expired entries. It runs at most once a second, because it reads all entries.
func (f *failures) purge(now time.Time) {
	if now.Sub(f.purged) < time.Second {
		return
	}
	f.purged = now
	maps.DeleteFunc(f.byAddress, func(_ netip.Addr, failing *addressFailures) bool {
		f.names -= failing.purge(now)
		return len(failing.byName) == 0 && failing.unnamed.expired(now) && failing.shared.expired(now)
	})
}

// succeeded resets the failures of a user who has authenticated. The user still counts as failing,
// because another client of the user may have an old password.
func (f *failures) succeeded(address netip.Addr, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if failing := f.byAddress[address]; failing != nil && failing.byName[logged(name)] != nil {
		failing.byName[logged(name)].count = 0
	}
}

// refuses reports whether connections from an address are currently refused.
func (f *failures) refuses(address netip.Addr, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	failing := f.byAddress[address]
	return failing != nil && failing.unnamed.blocked(now)
}

// blocked reports whether a name is currently blocked at an address.
func (f *failures) blocked(address netip.Addr, name string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	failing := f.byAddress[address]
	if failing == nil {
		return false
	}
	if count := failing.byName[logged(name)]; count != nil {
		return count.blocked(now)
	}
	return failing.shared.blocked(now)
}

// FailingClient is a user, or a client without a user name, that fails to authenticate from an
// address.
type FailingClient struct {
	Address netip.Addr
	User    string // "": the client has not sent the name of an existing user
	Blocked bool   // true if the user was blocked within the last minute after too many failures
}

// FailingClients returns the clients that repeatedly fail to authenticate. Blocked clients come
// first.
func (s *Server) FailingClients() []FailingClient {
	return s.failures.failing(time.Now())
}

func (f *failures) failing(now time.Time) []FailingClient {
	found := map[FailingClient]bool{} // values: true if blocked; the keys' Blocked is false
	collect := func(failingClient FailingClient, c *failureCount) {
		if now.Before(c.failingUntil) {
			found[failingClient] = found[failingClient] || now.Before(c.blockedUntil.Add(failureWindow))
		}
	}
	f.mu.Lock()
	for address, failing := range f.byAddress {
		collect(FailingClient{Address: address}, &failing.unnamed)
		collect(FailingClient{Address: address}, &failing.shared)
		for name, count := range failing.byName {
			if !count.known {
				name = ""
			}
			collect(FailingClient{Address: address, User: name}, count)
		}
	}
	f.mu.Unlock()
	clients := make([]FailingClient, 0, len(found))
	for client, blocked := range found {
		client.Blocked = blocked
		clients = append(clients, client)
	}
	slices.SortFunc(clients, compareFailing)
	return clients
}

func compareFailing(a, b FailingClient) int {
	if a.Blocked != b.Blocked {
		if a.Blocked {
			return -1
		}
		return 1
	}
	return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.User, b.User))
}
