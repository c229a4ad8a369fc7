// Package pressure determines which work a broker still does, from the size and the free space of
// its volume. A broker that fills its volume completely can neither append nor clean. So it stops
// accepting records while there is still space for the cleaner and replication.
//
// The package is pure: the broker measures its volume and passes the measurements to this package.
package pressure
