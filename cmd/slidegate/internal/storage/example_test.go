package storage_test

import (
	"fmt"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/storage"
)

// An address prints without its password, and so does what is wrong with one.
func ExampleParseAddress() {
	address, err := storage.ParseAddress("redis+sentinel://app:s3cret@10.0.0.1,10.0.0.2/primary")
	fmt.Println(address, err)
	_, err = storage.ParseAddress("redis://app:s3cret")
	fmt.Println(err)
	// Output:
	// redis+sentinel://app:xxxxx@10.0.0.1:26379,10.0.0.2:26379/primary <nil>
	// a port is a whole number of 1 to 65535
}
