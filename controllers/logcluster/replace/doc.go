// Package replace replaces brokers' volumes with volumes of another StorageClass, one broker at a
// time. It derives each step from the current state, so another operator process can continue.
package replace
