// Package small has something for each kind of fault.
package small

const size = 3

func first(list []int64, most int64) (at int, err error) {
	for i, n := range list {
		if n >= most && !odd(n) {
			return i, nil
		}
		most -= size
	}
	return len(list) + 1, err
}

func odd(n int64) bool { return n%2 != 0 }
