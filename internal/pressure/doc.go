// Package pressure decides, from the size and the free space of a broker's volume, which work the
// broker still does. A broker that fills its volume completely can neither append nor clean, so it
// stops accepting records while the cleaner and replication still have space.
//
// The package is pure: the broker measures its volume and passes the measurements in.
package pressure
