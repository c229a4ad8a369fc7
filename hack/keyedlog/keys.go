package main

import (
	"fmt"
	"math/rand/v2"
)

// order returns the number of the key of each record, 0 to keys-1.
type order func(record int) int

// orders are the orders in which keys recur.
var orders = map[string]func(random *rand.Rand, keys int) order{
	// the key of each record is drawn independently
	"uniform": func(random *rand.Rand, keys int) order {
		return func(int) int { return random.IntN(keys) }
	},
	// all keys, then all keys again in the same order
	"same": func(_ *rand.Rand, keys int) order {
		return func(record int) int { return record % keys }
	},
	// all keys, then all keys again, in another order each time
	"random": func(random *rand.Rand, keys int) order {
		var shuffled []int
		return func(record int) int {
			switch {
			case record < keys:
				return record
			case record%keys == 0:
				shuffled = random.Perm(keys)
			}
			return shuffled[record%keys]
		}
	},
}

// keyBytes is the length of a key, similar to the keys in Kafka's benchmarks of its cleaner.
const keyBytes = 16

// appendKey appends the text of a key.
func appendKey(into []byte, number int) []byte {
	return fmt.Appendf(into, "key-%012d", number)
}

// Values are substrings of a text of poolBytes bytes, in words of a vocabulary, so that codecs
// compress them to about a third.
const (
	poolBytes   = 8 << 20
	words       = 4096
	wordLetters = 12 // maximum; the minimum is 3
)

// newPool returns the text.
func newPool(random *rand.Rand) []byte {
	vocabulary := make([][]byte, words)
	for i := range vocabulary {
		for range 3 + random.IntN(wordLetters-2) {
			vocabulary[i] = append(vocabulary[i], byte('a'+random.IntN(26)))
		}
		vocabulary[i] = append(vocabulary[i], ' ')
	}
	pool := make([]byte, 0, poolBytes+wordLetters)
	for len(pool) < poolBytes {
		pool = append(pool, vocabulary[random.IntN(words)]...)
	}
	return pool
}
