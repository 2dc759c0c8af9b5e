import os

from mpi4py import MPI

os.environ["NODE_RANK"] = os.environ["OMPI_COMM_WORLD_RANK"]
print(os.environ["NODE_RANK"], MPI.COMM_WORLD.Get_rank())
