module github.com/slidegate/slidegate/test/bench

go 1.25.0

require github.com/slidegate/slidegate v0.0.0

replace github.com/slidegate/slidegate => ../../
