package memstore

// A slab keeps values that states point to by number, so that the tables hold no pointers and the
// collector has nothing to do there.
type slab[T any] struct {
	values []T
	free   []uint32
}

// add stores a value and returns a word that finds it.
func (s *slab[T]) add(v T) uint64 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		s.values[i] = v
		return spilled | uint64(i)
	}
	s.values = append(s.values, v)
	return spilled | uint64(len(s.values)-1)
}

// at returns the value that a word finds. The pointer is good until the next add.
func (s *slab[T]) at(word uint64) *T { return &s.values[uint32(word)] }

// remove forgets the value that a word finds.
func (s *slab[T]) remove(word uint64) {
	var zero T
	i := uint32(word)
	s.values[i] = zero
	s.free = append(s.free, i)
}

// sparse tells whether most of the slab is unused.
func (s *slab[T]) sparse() bool { return len(s.values) > 64 && len(s.free)*4 > len(s.values)*3 }
