package main

import (
	"fmt"
	"math/rand/v2"
)

// order is a function that returns the key of the record with the number record. A key is a number
// from 0 to keys-1.
type order func(record int) int

// orders contains the orders in which keys can recur, by their names in flag -order.
var orders = map[string]func(random *rand.Rand, keys int) order{
	// Each record has a random key, independent of the other records.
	"uniform": func(random *rand.Rand, keys int) order {
		return func(int) int { return random.IntN(keys) }
	},
	// Every key occurs once, in ascending order. Then all keys recur in the same order.
	"same": func(_ *rand.Rand, keys int) order {
		return func(record int) int { return record % keys }
	},
	// Every key occurs once, in ascending order. Then all keys recur in a different random order each
	// time.
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

// keyBytes is the length of a key. It is similar to the key length in Kafka's benchmarks of its
// cleaner.
const keyBytes = 16

// appendKey appends the text of a key, given by its number.
func appendKey(into []byte, number int) []byte {
	return fmt.Appendf(into, "key-%012d", number)
}

// Records' values are substrings of a random text of poolBytes bytes. The text consists of words
// from a vocabulary with the given number of words. So codecs compress it to about a third.
const (
	poolBytes   = 8 << 20
	words       = 4096
	wordLetters = 12 // maximum number of letters of a word; the minimum is 3
)

// newPool returns the random text. Values are substrings of it.
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
