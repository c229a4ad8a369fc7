// Package outage limits the logging of work that fails and is retried: it reports when an outage
// begins and when it ends, and not every failure in between. On a full disk, or without the API
// server, there are thousands of failures per second.
//
// It is pure: the owner of a State guards it, passes the current time, and logs without holding the
// guard.
package outage
