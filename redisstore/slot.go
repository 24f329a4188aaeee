package redisstore

// slots is the number of hash slots of a Redis Cluster.
const slots = 16384

// hashSlot returns the hash slot of a key with that tag: CRC-16/XMODEM of the tag, modulo slots, as
// the Redis Cluster specification has it.
func hashSlot(tag string) uint16 {
	crc := uint16(0)
	for i := 0; i < len(tag); i++ {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^tag[i]]
	}
	return crc % slots
}

var crcTable = func() (table [256]uint16) {
	const polynomial = 0x1021
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc & 0x8000
			crc <<= 1
			if carry != 0 {
				crc ^= polynomial
			}
		}
		table[i] = crc
	}
	return table
}()
