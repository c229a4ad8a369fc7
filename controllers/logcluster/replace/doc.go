// Package replace replaces brokers' volumes by volumes of another StorageClass, one broker at a
// time. It derives each step from the present state, so another operator process can continue.
package replace
