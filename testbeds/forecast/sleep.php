<?php
// Sleeps, as if for somebody else, and computes.
usleep(8000);
$sum = 0;
for ($i = 0; $i < 60000; $i++) {
    $sum += $i;
}
echo $sum, "\n";
