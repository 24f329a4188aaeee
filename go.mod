module github.com/slidegate/slidegate

go 1.25.0
