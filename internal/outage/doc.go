// Package outage says what is to be logged of work that fails and is tried again, so that a person
// hears when that begins and when it ends, and not of every failure in between: on a full disk, or
// without the API server, there are thousands a second.
//
// It is pure: State's owner says what guards it, passes the time in, and logs without holding that
// guard.
package outage
